"""The node's side: what a ClientApp does with adagq's messages.

    app = ClientApp()

    @register(app)
    def learner(context: Context) -> Learner: …

One message type, `train.adagq`, whose records say what is asked: nothing (who are you?), a `Sync`, a `Task`, or both.
The work itself is `adagq.client`, as in the simulator. Seconds are this process's own, by `perf_counter`; the wall
clock is read once, for the server to see how long the message was on its way.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, overload

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from adagq.backends.flower import records
from adagq.backends.flower.shelf import Shelf, digest_of
from adagq.client import Learner, probe, receive, work
from adagq.errors import NonFiniteError, PayloadError
from adagq.messages import Sync, Task
from adagq.vectors import FloatVector, Layout

ACTION: Final = "adagq"
RUN: Final = "adagq.run"  # from the server: which run this is, and the digest of the model that a sync leads to
NODE: Final = "adagq.node"  # from the node: who it is, what it holds, how long it took
FOLDER_SETTING: Final = "adagq-folder"
KEPT_DAYS: Final = 7  # of runs that are over
Make = Callable[[Context], Learner]


@overload
def register(app: ClientApp, learner: Make) -> None: ...
@overload
def register(app: ClientApp, learner: None = None) -> Callable[[Make], Make]: ...
def register(app: ClientApp, learner: Make | None = None) -> Callable[[Make], Make] | None:
    """Let `app` take part in runs of `adagq.flower.Compressed`; other messages of the app stay as they are.

    Parameters
    ----------
    app : ClientApp
        The app that gets the handler.
    learner : Callable[[Context], Learner], optional
        Makes this node's learner: its model and its data. Without it `register` is a decorator.
    """
    if learner is None:

        def decorate(make: Make) -> Make:
            register(app, make)
            return make

        return decorate

    make = learner

    def handle(message: Message, context: Context) -> Message:
        return Message(answer(message.content, context, make), reply_to=message)

    app.train(ACTION)(handle)
    return None


def answer(asked: RecordDict, context: Context, make: Make) -> RecordDict:
    """Return the reply's records."""
    told: dict[str, Any] = {"started-at": time.time()}
    begun = time.perf_counter()
    reply = RecordDict()
    learner = _Timed(make(context))
    run = _run_of(asked)
    shelf = shelf_of(context, str(run["run"]))
    if not records.holds(asked, Sync) and not records.holds(asked, Task):
        told |= _introduction(context, learner)
        _forget_old_runs(shelf.folder)
    else:
        told |= _serve(asked, reply, learner, shelf, str(run["digest"]))
        # Flower keeps this record with the node: small enough to travel with every message.
        context.state["adagq"] = ConfigRecord({"version": told["version"], "path": str(shelf.model)})
    told["seconds"] = time.perf_counter() - begun
    reply[NODE] = ConfigRecord(told)
    return reply


def name_of(context: Context) -> str:
    """Return what this node is called, also after a restart: its `name`, its partition, else Flower's number."""
    config = context.node_config
    if "name" in config:
        return str(config["name"])
    return f"partition-{config['partition-id']}" if "partition-id" in config else f"node-{context.node_id}"


def shelf_of(context: Context, run: str) -> Shelf:
    """Return this node's folder for this run: `adagq-folder` of the node's config, else under the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = Path(str(context.node_config.get(FOLDER_SETTING, cache / "adagq" / "nodes")))
    return Shelf(base / _file_name(name_of(context)) / _file_name(run))


def layout_digest(layout: Layout) -> str:
    """Return a name for shapes and order: server and node must flatten the model the same way."""
    trained = [tensor.shape for tensor in layout.tensors if not tensor.buffer]
    buffers = [tensor.shape for tensor in layout.tensors if tensor.buffer]
    return hashlib.sha256(repr((trained, buffers)).encode()).hexdigest()[:16]


def _introduction(context: Context, learner: "_Timed") -> dict[str, Any]:
    config = context.node_config
    told: dict[str, Any] = {
        "name": name_of(context),
        "layout": layout_digest(learner.layout),
        "elements": learner.layout.elements,
        "examples": learner.examples,
    }
    if "partition-id" in config:
        told["partition-id"] = int(config["partition-id"])
    for key in ("uplink-mbps", "downlink-mbps"):
        if key in config:
            told[key] = float(config[key])
    return told


def _serve(asked: RecordDict, reply: RecordDict, learner: "_Timed", shelf: Shelf, digest: str) -> dict[str, Any]:
    """Bring the model up to date, probe, train and encode: whatever is asked for."""
    begun = time.perf_counter()
    copy = shelf.copy()
    told: dict[str, Any] = {"version": -1}
    if records.holds(asked, Sync):
        sync = records.read(asked, Sync)
        try:
            copy = receive(copy, sync)
        except PayloadError as error:
            return told | {"stale": str(error)}
        if digest_of(copy.vector, copy.buffers) != digest:
            return told | {"stale": f"version {copy.version} here is another model's"}
        shelf.keep(copy)
        told["receive-seconds"] = time.perf_counter() - begun
        begun = time.perf_counter()
        records.write(reply, probe(learner, copy, sync))
        told["probe-seconds"] = time.perf_counter() - begun
        begun = time.perf_counter()
    elif copy is None or digest_of(copy.vector, copy.buffers) != digest:
        return told | {"stale": "this node holds no model of this version"}
    told["version"] = copy.version
    if records.holds(asked, Task):
        task = records.read(asked, Task)
        residual = shelf.residual(task.round) if task.residual else None
        learner.train_seconds = 0.0
        try:
            update, rest = work(learner, copy, task, residual)
        except NonFiniteError as error:
            return told | {"failed": f"training left numbers that are not finite: {error}"}
        if rest is not None:
            shelf.keep_residual(task.round, rest)
        records.write(reply, update)
        told["train-seconds"] = learner.train_seconds
        told["encode-seconds"] = time.perf_counter() - begun - learner.train_seconds
    return told


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

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        self.learner.load(vector, buffers)

    def dump(self) -> tuple[FloatVector, FloatVector]:
        return self.learner.dump()

    def train(self, epochs: int, learning_rate: float, seed: int) -> float:
        begun = time.perf_counter()
        try:
            return self.learner.train(epochs, learning_rate, seed)
        finally:
            self.train_seconds += time.perf_counter() - begun

    def loss(self) -> float:
        return self.learner.loss()


def _run_of(asked: RecordDict) -> ConfigRecord:
    run = asked.get(RUN)
    if not isinstance(run, ConfigRecord) or "run" not in run:
        raise PayloadError("this message is not of an adagq strategy: use adagq.flower.AdaGQ in the ServerApp")
    return run


def _file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in text)


def _forget_old_runs(folder: Path) -> None:
    """Delete what runs of long ago left on this node's disk."""
    oldest = time.time() - KEPT_DAYS * 86400
    for other in folder.parent.glob("*"):
        if other != folder and other.is_dir() and other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)
