"""A Flower app for soak tests: softmax regression on digits in NumPy, on nodes that misbehave when told to.

A node looks into the file that its node config calls `soak-fault` before it works and after it has answered:

    slow 4.0     it trains four seconds longer
    garbage      what it sends is damaged: random bytes, records of other types, numbers that cannot be

An empty file, or none, is a healthy node. Kills and hangs need no help from the app: `benchmarks.soak` sends signals.
"""

import random
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from flwr.app import Context, Message
from flwr.serverapp import Grid
from numpy.typing import NDArray

from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector, Layout
from adagq.data import load_data
from adagq.data.partitions import partition
from adagq.flower.apps import Settings, server_app, train_population
from adagq.flower.local.app import write_package
from adagq.flower.message_fuzzing import damage
from adagq.flower.strategy import Compressed

FAULT: Final = "soak-fault"
BATCH: Final = 16
CLIENT: Final = """from flwr.clientapp import ClientApp

from adagq.flower import register


def garbage(message, context, call_next):
    from adagq.flower.local.soak_app import damaged

    return damaged(call_next(message, context), context)


app = ClientApp(mods=[garbage])
register(app, "adagq.flower.local.soak_app:learner")
"""
SERVER: Final = 'from adagq.flower.local.soak_app import server as app\n\n__all__ = ["app"]\n'
Table = NDArray[np.float32]


def write_soak_app(folder: Path) -> Path:
    """Write the app into `folder` and return it."""
    settings = {"method": "adagq-fit", "num-server-rounds": 3, "nodes": 2, "seed": 0, "out": ""}
    return write_package(folder, CLIENT, SERVER, settings)


class Softmax:
    """Softmax regression over one node's share of the digits."""

    layout = Layout.of({"weight": np.zeros((64, 10), np.float32), "bias": np.zeros(10, np.float32)})

    def __init__(self, inputs: Table, labels: NDArray[np.int64], fault: Path | None = None) -> None:
        self._inputs, self._labels, self._fault = inputs, labels, fault
        self._vector = np.zeros(self.layout.elements, np.float32)

    @property
    def examples(self) -> int:
        return len(self._labels)

    @property
    def held_out(self) -> int:
        return len(self._labels)

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        self._vector = vector.copy()

    def dump(self) -> tuple[FloatVector, FloatVector]:
        return self._vector.copy(), np.zeros(0, np.float32)

    def train(self, epochs: float, learning_rate: float, seed: int) -> float:
        kind, _, seconds = fault_in(self._fault).partition(" ")
        time.sleep(float(seconds) if kind == "slow" else 0.0)
        for epoch in range(int(epochs)):
            order = generator(seed, "order", epoch).permutation(self.examples)
            for first in range(0, self.examples, BATCH):
                batch = order[first : first + BATCH]
                inputs, wrong = self._inputs[batch], self._wrong(batch)
                step = np.concatenate([(inputs.T @ wrong).ravel(), wrong.sum(axis=0)]) / np.float32(len(batch))
                self._vector -= np.float32(learning_rate) * step.astype(np.float32)
        return self.loss()

    def loss(self) -> float:
        return scores(self._vector, self._inputs, self._labels)[1]

    def _wrong(self, batch: NDArray[np.int64]) -> Table:
        """Return the gradient of the loss by the logits."""
        likely = likelihoods(self._vector, self._inputs[batch])
        likely[np.arange(len(batch)), self._labels[batch]] -= 1
        return likely


class Digits:
    """All nodes' shares of the digits, and the test set."""

    layout = Softmax.layout
    flops_per_sample = 4.0 * 640

    def __init__(self, clients: int, seed: int) -> None:
        data = load_data("digits")
        self.clients = clients
        self._train, self._labels = _flat(data.train_inputs), data.train_labels
        self._test, self._test_labels = _flat(data.test_inputs), data.test_labels
        self._shares = partition("sigma_d", 0.5, self._labels, clients, seed)

    @property
    def test_samples(self) -> int:
        return len(self._test_labels)

    def initial(self, seed: int) -> tuple[FloatVector, FloatVector]:
        return np.zeros(self.layout.elements, np.float32), np.zeros(0, np.float32)

    def learner(self, client: int, fault: Path | None = None) -> Softmax:
        share = self._shares[client]
        return Softmax(self._train[share], self._labels[share], fault)

    def evaluate(
        self, vector: FloatVector, buffers: FloatVector, first: int = 0, last: int | None = None
    ) -> tuple[float, float]:
        return scores(vector, self._test[first:last], self._test_labels[first:last])


def likelihoods(vector: FloatVector, inputs: Table) -> Table:
    """Return the likelihood of every class for every input."""
    logits = inputs @ vector[:640].reshape(64, 10) + vector[640:]
    likely: Table = np.exp(logits - logits.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    return likely


def scores(vector: FloatVector, inputs: Table, labels: NDArray[np.int64]) -> tuple[float, float]:
    """Return (accuracy, loss) of a model."""
    likely = likelihoods(vector, inputs)
    right = likely[np.arange(len(labels)), labels]
    return float((likely.argmax(axis=1) == labels).mean()), float(-np.log(np.maximum(right, 1e-12)).mean())


def learner(context: Context) -> Softmax:
    """Return a node's learner."""
    run, node = context.run_config, context.node_config
    fault = Path(str(node[FAULT])) if FAULT in node else None
    return Digits(int(run["nodes"]), int(run["seed"])).learner(int(node["partition-id"]), fault)


def damaged(reply: Message, context: Context) -> Message:
    """Return a node's reply; damaged while its fault says so."""
    fault = Path(str(context.node_config.get(FAULT, "")))
    if fault_in(fault) == "garbage" and not reply.has_error():
        damage(reply.content, random.Random())
    return reply


def fault_in(path: Path | None) -> str:
    """Return what is wrong with a node at this moment, "" if nothing."""
    return path.read_text("utf-8").strip() if path is not None and path.is_file() else ""


def _flat(inputs: Any) -> Table:
    flat: Table = (inputs.reshape(len(inputs), -1) / np.float32(16)).astype(np.float32)
    return flat


def _train(run: Settings, grid: Grid) -> None:
    nodes, seed = int(run["nodes"]), int(run["seed"])
    strategy = Compressed(
        str(run["method"]),
        min_available_nodes=max(nodes // 2, 1),
        seed=seed,
        out=str(run["out"]),
        learning_rate=0.1,
        exchanges=1,
    )
    train_population(strategy, grid, Digits(nodes, seed), seed, int(run["num-server-rounds"]))


server = server_app(_train)
