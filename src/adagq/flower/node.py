"""The node's side: what a ClientApp does with adagq's messages (`registration` says how an app gets there).

One message type, `train.adagq`, whose records say what is asked: nothing (who are you?), a `Sync`, a `Task`, or both.
The work itself is `adagq.client.work`, as in the simulator. Seconds are this process's own, by `perf_counter`; the wall
clock is read once, for the server to see how long the message was on its way.
"""

import json
import os
import secrets
import time
import traceback
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

from flwr.app import ConfigRecord, Context, MetricRecord, RecordDict

from adagq.client.learner import Learner, least_epochs
from adagq.client.optimizers import steer
from adagq.client.privacy import check_noise
from adagq.client.replica import Replica, receive
from adagq.client.work import probe, work
from adagq.core.errors import DataError, NonFiniteError, PayloadError
from adagq.core.messages import Sync, Task
from adagq.core.vectors import FloatVector, Layout
from adagq.flower.layouts import layout_digest, layout_text
from adagq.flower.named_learner import Make
from adagq.flower.names import CONFIG, EVALUATE, METRICS, NODE, RUN, WEIGHT
from adagq.flower.records import holds, read, write
from adagq.flower.storage import Storage, digest_of

STATE: Final = "adagq"  # what Flower keeps of us between messages
FOLDER_SETTING: Final = "adagq-folder"
LEAST_NOISE: Final = "adagq-least-noise"  # times the clip: a node that asks for privacy works for no server without it
LONGEST_TRACE: Final = 4000  # characters of a traceback that go to the server: its end


def answer(asked: RecordDict, context: Context, make: Make) -> RecordDict:
    """Return the reply's records; an exception of the app's own code goes to the server as its traceback."""
    node: dict[str, Any] = {"started-at": time.time()}
    begun = time.perf_counter()
    reply = RecordDict()
    try:
        run = _run_of(asked)
        storage = storage_of(context, str(run["run"]))
        learner = _Timed(make(context))
        if not holds(asked, Sync) and not holds(asked, Task):
            node |= _introduction(context, learner)
            storage.forget_old_runs()
        else:
            if LEAST_NOISE in context.node_config:
                sync = read(asked, Sync) if holds(asked, Sync) else None
                task = read(asked, Task) if holds(asked, Task) else None
                check_noise(sync, task, float(context.node_config[LEAST_NOISE]), EVALUATE in asked)
            node |= _serve(asked, reply, learner, storage, str(run["digest"]))
            # Flower keeps this record with the node: small enough to travel with every message.
            context.state[STATE] = ConfigRecord({"version": node["version"], "path": str(storage.model)})
    except Exception:
        reply = RecordDict()
        node["crashed"] = traceback.format_exc()[-LONGEST_TRACE:]
    node["seconds"] = time.perf_counter() - begun
    reply[NODE] = ConfigRecord(node)
    return reply


def name_of(context: Context) -> str:
    """Return what this node is called, also after a restart: its `name`, its partition, else Flower's number."""
    config = context.node_config
    if "name" in config:
        return str(config["name"])
    return f"partition-{config['partition-id']}" if "partition-id" in config else f"node-{context.node_id}"


def storage_of(context: Context, run: str) -> Storage:
    """Return this node's folder for this run: `adagq-folder` of the node's config, else under the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = Path(str(context.node_config.get(FOLDER_SETTING, cache / "adagq" / "nodes")))
    return Storage.of_run(base, name_of(context), run)


def _introduction(context: Context, learner: "_Timed") -> dict[str, Any]:
    config = context.node_config
    said: dict[str, Any] = {
        "name": name_of(context),
        "layout": layout_digest(learner.layout),
        "tensors": layout_text(learner.layout),
        "elements": learner.layout.elements,
        "examples": learner.examples,
        "evaluates": callable(getattr(learner.learner, "evaluate", None)),
        "tied": json.dumps(getattr(learner.learner, "tied", {})),
        "takes-config": bool(getattr(learner.learner, "takes_config", False)),
    }
    if "partition-id" in config:
        said["partition-id"] = int(config["partition-id"])
    for key in ("uplink-mbps", "downlink-mbps"):
        if key in config:
            said[key] = float(config[key])
    return said


def _serve(asked: RecordDict, reply: RecordDict, learner: "_Timed", storage: Storage, digest: str) -> dict[str, Any]:
    """Bring the model up to date, probe, train and encode: whatever is asked for."""
    begun = time.perf_counter()
    replica = storage.replica()
    node: dict[str, Any] = {"version": -1}
    _configure(asked, learner.learner)
    if holds(asked, Sync):
        sync = read(asked, Sync)
        try:
            replica = receive(replica, sync)
        except PayloadError as error:
            return node | {"stale": str(error)}
        if digest_of(replica.vector, replica.buffers) != digest:
            return node | {"stale": f"version {replica.version} here is another model's"}
        if EVALUATE in asked:
            reply[METRICS] = _evaluated(learner, replica)
            return node | {"version": replica.version}
        storage.keep(replica)
        node["receive-seconds"] = time.perf_counter() - begun
        begun = time.perf_counter()
        write(reply, probe(learner, replica, sync))
        node["probe-seconds"] = time.perf_counter() - begun
        begun = time.perf_counter()
    elif replica is None or digest_of(replica.vector, replica.buffers) != digest:
        return node | {"stale": "this node holds no model of this version"}
    node["version"] = replica.version
    if holds(asked, Task):
        task = read(asked, Task)
        learner.train_seconds = 0.0
        try:
            update, state = work(learner, replica, task, storage.state(task.round), secrets.randbits(63))
        except NonFiniteError as error:
            return node | {"diverged": f"training left numbers that are not finite: {error}"}
        storage.keep_state(task.round, state)
        write(reply, update)
        if not task.clip_norm:  # what training measured is private
            reply[METRICS] = _trained(learner, update.train_loss)
        node["train-seconds"] = learner.train_seconds
        node["encode-seconds"] = time.perf_counter() - begun - learner.train_seconds
    return node


def _configure(asked: RecordDict, learner: Learner) -> None:
    """Hand the server's settings to a learner that takes them."""
    config = asked.get(EVALUATE if EVALUATE in asked else CONFIG)
    configure = getattr(learner, "configure", None)
    if isinstance(config, ConfigRecord) and configure is not None:
        configure(dict(config))


def _evaluated(learner: "_Timed", replica: Replica) -> MetricRecord:
    """Return the metrics of a model on this node's samples; the replica on disk stays as it is."""
    evaluate = getattr(learner.learner, "evaluate", None)
    if evaluate is None:
        raise DataError("this node's learner has no `evaluate`")
    learner.load(replica.vector, replica.buffers)
    metrics = dict(evaluate())
    return MetricRecord({**metrics, WEIGHT: int(metrics.get(WEIGHT, learner.held_out or learner.examples))})


def _trained(learner: "_Timed", train_loss: float) -> MetricRecord:
    """Return the metrics of a training, as Flower's own apps name them."""
    metrics = {name: float(value) for name, value in getattr(learner.learner, "train_metrics", {}).items()}
    loss = {"train_loss": train_loss} if isfinite(train_loss) else {}
    return MetricRecord({**loss, **metrics, WEIGHT: learner.examples})


@dataclass
class _Timed:
    """A learner that notes how long it trained; what `work` takes beyond that is encoding."""

    learner: Learner
    train_seconds: float = 0.0

    @property
    def layout(self) -> Layout:
        return self.learner.layout

    @property
    def examples(self) -> int:
        return self.learner.examples

    @property
    def held_out(self) -> int:
        return self.learner.held_out

    @property
    def least_epochs(self) -> float:
        return least_epochs(self.learner)

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        self.learner.load(vector, buffers)

    def dump(self) -> tuple[FloatVector, FloatVector]:
        return self.learner.dump()

    def train(self, epochs: float, learning_rate: float, seed: int) -> float:
        begun = time.perf_counter()
        try:
            return self.learner.train(epochs, learning_rate, seed)
        finally:
            self.train_seconds += time.perf_counter() - begun

    def steer(self, proximal: float, inertia: float, direction: FloatVector) -> None:
        steer(self.learner, proximal, inertia, direction)

    def loss(self) -> float:
        return self.learner.loss()


def _run_of(asked: RecordDict) -> ConfigRecord:
    run = asked.get(RUN)
    if not isinstance(run, ConfigRecord) or "run" not in run:
        raise PayloadError("this message is not of an adagq strategy: use adagq.flower.AdaGQ in the ServerApp")
    return run
