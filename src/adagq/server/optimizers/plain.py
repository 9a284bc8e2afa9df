"""The plain optimizer: the step is the mean update."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adagq.core.codec import Arrays
from adagq.core.messages import Receipt
from adagq.core.vectors import FloatVector, Layout
from adagq.server.optimizers.optimizer import OPTIMIZERS, Step, check_above


@OPTIMIZERS.register("plain")
@dataclass(frozen=True, slots=True)
class Plain:
    """The mean itself, times `rate`: FedAvg's step.

    >>> Plain().step(np.array([1.0, -2.0], np.float32), {}, (), Layout.of_sizes([2])).vector.tolist()
    [1.0, -2.0]
    """

    rate: float = 1.0

    def __post_init__(self) -> None:
        check_above("rate", self.rate, 0.0)

    def step(self, mean: FloatVector, state: Arrays, receipts: Sequence[Receipt], layout: Layout) -> Step:
        return Step(mean if self.rate == 1.0 else np.float32(self.rate) * mean, {})
