"""The global model: parameters, buffers, version, and the optimizer that moves it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from adagq.core.codec import Arrays
from adagq.core.messages import Receipt
from adagq.core.vectors import FloatVector, Layout
from adagq.server.optimizers import Optimizer


@dataclass
class GlobalModel:
    """The server's model. It moves by what clients decode, so it is their replicas' model bit for bit."""

    layout: Layout
    vector: FloatVector
    buffers: FloatVector
    optimizer: Optimizer
    version: int = 0
    optimizer_state: Arrays = field(default_factory=dict)

    def step(self, mean: FloatVector, receipts: Sequence[Receipt]) -> FloatVector:
        """Return how far the optimizer wants to move for this mean update."""
        step, self.optimizer_state = self.optimizer.step(mean, self.optimizer_state, receipts, self.layout)
        return step

    def move(self, sent: FloatVector, buffers: FloatVector) -> None:
        """Take the step that was broadcast: w <- w - sent, one version on."""
        self.vector = self.vector - sent
        self.buffers = buffers
        self.version += 1
