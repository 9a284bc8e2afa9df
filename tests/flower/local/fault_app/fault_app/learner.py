"""A learner that pulls a vector towards its own centre, as slowly as the run says; nothing heavy to import."""

import time

import numpy as np
from flwr.app import Context

from adagq.core.vectors import FloatVector, Layout


class Puller:
    """A learner whose loss is the distance to its centre."""

    examples, held_out = 100, 1

    def __init__(self, elements: int, centre: float, train_seconds: float, fault: str) -> None:
        self.layout = Layout.of_sizes([elements])
        self._centre, self._train_seconds, self._fault = np.float32(centre), train_seconds, fault
        self._vector = np.zeros(elements, np.float32)

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        self._vector = vector.copy()

    def dump(self) -> tuple[FloatVector, FloatVector]:
        return self._vector.copy(), np.zeros(0, np.float32)

    def train(self, epochs: int, learning_rate: float, seed: int) -> float:
        time.sleep(self._train_seconds)
        if self._fault == "nan":
            self._vector[0] = np.nan
        self._vector += np.float32(learning_rate) * (self._centre - self._vector)
        return self.loss()

    def loss(self) -> float:
        return float(np.mean(np.square(self._vector - self._centre)))


def learner(context: Context) -> Puller:
    """Return this node's learner."""
    run, node = context.run_config, context.node_config
    centre = 1.0 + 0.1 * int(node["partition-id"])
    return Puller(int(run["elements"]), centre, float(run["train-seconds"]), str(node.get("fault", "")))
