"""A Flower app whose nodes have nothing to compute: what its rounds take is what an exchange costs.

The model is one vector of `elements` numbers. With `method = "flower-fedavg"` it runs under Flower's own strategy, with
Flower's own handler; with any other under adagq's.
"""

import json
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from adagq.core.jsonl import read_lines
from adagq.core.vectors import FloatVector, Layout
from adagq.flower.apps import Settings, server_app
from adagq.flower.exchange_log import EXCHANGES
from adagq.flower.local.app import write_package
from adagq.flower.strategy import Compressed

PLAIN: Final = "flower-fedavg"
FIGURES: Final = "figures.json"
CLIENT: Final = """from flwr.clientapp import ClientApp

from adagq.flower import register

app = ClientApp()
register(app, "adagq.flower.local.exchange_app:learner")


@app.train()
def train(message, context):
    from adagq.flower.local.exchange_app import train_plainly

    return train_plainly(message)
"""
SERVER: Final = 'from adagq.flower.local.exchange_app import server as app\n\n__all__ = ["app"]\n'


def write_exchange_app(folder: Path) -> Path:
    """Write the app into `folder` and return it."""
    settings = {"method": "fedavg", "num-server-rounds": 3, "elements": 256, "nodes": 2, "out": ""}
    return write_package(folder, CLIENT, SERVER, settings)


class Vector:
    """A learner that takes one step towards 1 on every number of its vector."""

    examples, held_out = 1, 1

    def __init__(self, elements: int) -> None:
        self.layout = Layout.of({"vector": np.zeros(elements, np.float32)})
        self._vector = np.zeros(elements, np.float32)

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        self._vector = vector.copy()

    def dump(self) -> tuple[FloatVector, FloatVector]:
        return self._vector, np.zeros(0, np.float32)

    def train(self, epochs: float, learning_rate: float, seed: int) -> float:
        self._vector = _trained(self._vector)
        return 0.0

    def loss(self) -> float:
        return 0.0


def learner(context: Context) -> Vector:
    """Return a node's learner."""
    return Vector(int(context.run_config["elements"]))


def train_plainly(message: Message) -> Message:
    """Do the same with a whole model, as Flower's FedAvg sends it."""
    begun = time.perf_counter()
    vector = _trained(message.content.array_records["arrays"]["vector"].numpy())
    metrics = MetricRecord({"num-examples": 1, "train-seconds": time.perf_counter() - begun})
    return Message(RecordDict({"arrays": ArrayRecord({"vector": Array(vector)}), "metrics": metrics}), reply_to=message)


def _trained(vector: FloatVector) -> FloatVector:
    return (vector + np.float32(0.1) * (np.float32(1) - vector)).astype(np.float32)


def _train(run: Settings, grid: Grid) -> None:
    out, nodes, rounds = Path(str(run["out"])), int(run["nodes"]), int(run["num-server-rounds"])
    method = str(run["method"])
    ends: list[float] = []

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        ends.append(time.perf_counter())
        return MetricRecord({"accuracy": 0.0, "loss": 0.0})

    strategy: Any = (
        FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
        if method == PLAIN
        else Compressed(method, min_available_nodes=nodes, exchanges=1, out=out, deadline_seconds=300.0)
    )
    first = Array(np.zeros(int(run["elements"]), np.float32))
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({"vector": first}),
        num_rounds=rounds,
        train_config=ConfigRecord({"lr": 0.1}),
        evaluate_fn=evaluate,
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / FIGURES).write_text(json.dumps(_figures(out, ends)), "utf-8")


def _figures(out: Path, ends: list[float]) -> dict[str, Any]:
    """Return median seconds of a round, and of an exchange and of a node's own steps in it where they are known.

    The first round is left out: nodes get the whole model and make their learners.
    """
    seconds = [later - earlier for earlier, later in pairwise(ends)][-(len(ends) - 2) :]
    exchanges = [line for line in read_lines(out / EXCHANGES) if line["round"] > 1]
    steps = [f"{step}_seconds" for step in ("receive", "probe", "train", "encode")]
    computing = [sum(line[step] for step in steps) for line in exchanges]
    return {
        "round_seconds": median(seconds),
        "exchange_seconds": median(line["exchange_seconds"] for line in exchanges) if exchanges else None,
        "compute_seconds": median(computing) if computing else None,
        "upload_bytes": max((line["upload_bytes"] for line in exchanges), default=None),
    }


server = server_app(_train)
