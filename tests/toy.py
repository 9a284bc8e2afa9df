"""A federation without torch: every client pulls the model towards its own centre. Quick and exact."""

from dataclasses import dataclass, field

import numpy as np

from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector, Layout

LAYOUT = Layout.of(
    {
        "weight": np.zeros((4, 8), np.float32),
        "bias": np.zeros(8, np.float32),
        "bn.running_mean": np.zeros(3, np.float32),
    }
)


@dataclass
class ToyLearner:
    offset: np.float32  # of this client's centre from 1
    examples: int
    layout: Layout
    held_out: int = 10
    vector: FloatVector = field(default_factory=lambda: np.zeros(0, np.float32))
    buffers: FloatVector = field(default_factory=lambda: np.zeros(0, np.float32))

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        self.vector, self.buffers = vector.copy(), buffers.copy()

    def dump(self) -> tuple[FloatVector, FloatVector]:
        return self.vector.copy(), self.buffers.copy()

    def train(self, epochs: int, learning_rate: float, seed: int) -> float:
        noise = np.float32(generator(seed, "toy").normal(0, 0.01))
        for _ in range(epochs):
            self.vector += np.float32(learning_rate) * (self.offset + 1 - self.vector + noise)
        self.buffers += np.float32(1)
        return self.loss()

    def loss(self) -> float:
        return float(np.mean(np.square(self.vector - self.offset - 1)))


@dataclass(frozen=True)
class ToySpec:
    """The recipe that workers build from."""

    clients: int = 4
    layout: Layout = LAYOUT
    broken: int = -1  # this client's training leaves NaN

    def build(self) -> "ToyPopulation":
        return ToyPopulation(self)


class ToyPopulation:
    flops_per_sample = 1e6
    test_samples = 2500

    def __init__(self, spec: ToySpec) -> None:
        self.clients, self.layout = spec.clients, spec.layout
        self._spec = spec

    def initial(self, seed: int) -> tuple[FloatVector, FloatVector]:
        vector = generator(seed, "model").standard_normal(self.layout.elements, np.float32)
        return vector, np.zeros(self.layout.buffer_elements, np.float32)

    def learner(self, client: int) -> ToyLearner:
        offset = np.float32(generator(7, "offset", client).normal(0, 0.1))
        return ToyLearner(np.float32(np.nan) if client == self._spec.broken else offset, 100 + client, self.layout)

    def evaluate(
        self, vector: FloatVector, buffers: FloatVector, first: int = 0, last: int | None = None
    ) -> tuple[float, float]:
        loss = float(np.mean(np.square(vector - 1)))
        return round(2500 * np.exp(-loss)) / 2500, loss
