"""The optimizer that finds its own step: Nesterov's momentum, and FedExP's extrapolation as far as it can be believed.

    c    = cos(g, velocity)                                              0 in the first round
    x    = sum_i p_i |u_i|^2 / (2 |g|^2), the quantizers' noise taken out of |g|^2    (`fedexp`)
    step of Nesterov's momentum for the mean  min(max(1, c x), largest) * g

FedExP reads a short mean as clients that disagree and goes further. But a mean is also short where most of every update
is noise, and there a longer step only makes more of it: on the small CIFAR-10 cell x is 9 in all rounds. What tells the
two apart is whether means agree from round to round: c is 0.8 to 0.97 on digits and 0.05 there. So the step is long
where the mean can be relied on, plain Nesterov's where it cannot, and short again at once when the model has gone too
far, since then c falls below zero.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from adagq.core.codec import Arrays
from adagq.core.messages import Receipt
from adagq.core.vectors import FloatVector, Layout, squared_norm
from adagq.server.optimizers.fedexp import extrapolation
from adagq.server.optimizers.momentum import next_velocity
from adagq.server.optimizers.optimizer import OPTIMIZERS, Step, check_at_least_one, check_share

logger = logging.getLogger("adagq")


@OPTIMIZERS.register("auto")
@dataclass(frozen=True, slots=True)
class Auto:
    """Nesterov's momentum with a step from what the server sees; at most `largest` times the mean.

    >>> optimizer, g, layout = Auto(momentum=0.5), np.ones(1, np.float32), Layout.of_sizes([1])
    >>> float(optimizer.step(g, {}, (), layout).vector[0])  # the first round: nothing to believe yet
    1.5
    """

    momentum: float = 0.7
    largest: float = 4.0

    def __post_init__(self) -> None:
        check_share("momentum", self.momentum)
        check_at_least_one("largest", self.largest)

    def step(self, mean: FloatVector, state: Arrays, receipts: Sequence[Receipt], layout: Layout) -> Step:
        energy = squared_norm(mean)
        rate = min(max(1.0, _cosine(mean, energy, state) * extrapolation(energy, receipts)), self.largest)
        logger.debug("server optimizer: step of %.3g times the mean", rate)
        velocity, ahead = next_velocity(np.float32(rate) * mean, state, self.momentum)
        return Step(ahead, {"velocity": velocity})


def _cosine(mean: FloatVector, energy: float, state: Arrays) -> float:
    """Return the cosine of the mean with the velocity; 0 while there is none."""
    if "velocity" not in state:
        return 0.0
    norms = sqrt(energy) * sqrt(squared_norm(state["velocity"]))
    return float(np.dot(mean, state["velocity"])) / norms if norms > 0.0 else 0.0
