"""Momentum at the server: heavy ball (FedAvgM) and Nesterov's, damped where it would run away.

A velocity that the mean update turns against carries the model past what the clients want, and one that a single
outsized mean has filled carries it on for 1 / (1 - momentum) rounds. The server sees both without a loss:

    cos(g, velocity) < AGAINST              the step is g, the velocity begins anew (O'Donoghue, Candes 2015)
    |g| > JUMP * |velocity| / momentum      the same with g cut to that norm

Either is logged. AGAINST is below zero, because means over few clients turn a little against each other by chance.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Final

import numpy as np

from adagq.core.codec import Arrays
from adagq.core.messages import Receipt
from adagq.core.vectors import FloatVector, Layout, squared_norm
from adagq.server.optimizers.optimizer import OPTIMIZERS, Step, check_above, check_share

AGAINST: Final = -0.5
JUMP: Final = 5.0  # times the velocity of earlier rounds, which is larger than their means
logger = logging.getLogger("adagq")


@OPTIMIZERS.register("momentum")
@dataclass(frozen=True, slots=True)
class Momentum:
    """Heavy ball.

    >>> optimizer, g, layout = Momentum(momentum=0.5), np.ones(1, np.float32), Layout.of_sizes([1])
    >>> first = optimizer.step(g, {}, (), layout)
    >>> float(first.vector[0]), float(optimizer.step(g, first.state, (), layout).vector[0])
    (1.0, 1.5)
    """

    momentum: float = 0.7
    rate: float = 1.0

    def __post_init__(self) -> None:
        check_above("rate", self.rate, 0.0)
        check_share("momentum", self.momentum)

    def step(self, mean: FloatVector, state: Arrays, receipts: Sequence[Receipt], layout: Layout) -> Step:
        velocity, _ = next_velocity(mean, state, self.momentum)
        return Step(np.float32(self.rate) * velocity, {"velocity": velocity})


@OPTIMIZERS.register("nesterov")
@dataclass(frozen=True, slots=True)
class Nesterov:
    """Nesterov's momentum, as the outer optimizer of FedAvg.

    >>> optimizer, g, layout = Nesterov(momentum=0.5), np.ones(1, np.float32), Layout.of_sizes([1])
    >>> first = optimizer.step(g, {}, (), layout)
    >>> float(first.vector[0]), float(optimizer.step(g, first.state, (), layout).vector[0])
    (1.5, 1.75)
    """

    momentum: float = 0.7
    rate: float = 1.0

    def __post_init__(self) -> None:
        check_above("rate", self.rate, 0.0)
        check_share("momentum", self.momentum)

    def step(self, mean: FloatVector, state: Arrays, receipts: Sequence[Receipt], layout: Layout) -> Step:
        velocity, ahead = next_velocity(mean, state, self.momentum)
        return Step(np.float32(self.rate) * ahead, {"velocity": velocity})


def next_velocity(mean: FloatVector, state: Arrays, momentum: float) -> tuple[FloatVector, FloatVector]:
    """Return momentum * velocity + mean, and Nesterov's look ahead from there.

    Damped as the module's docstring says: a restart takes the mean alone, so that a model which swings from round to
    round moves as it would without momentum.
    """
    if "velocity" not in state:
        return mean.copy(), _ahead(mean, mean, momentum)
    before = state["velocity"]
    norm, usual = sqrt(squared_norm(mean)), sqrt(squared_norm(before))
    limit = JUMP * usual / momentum if usual > 0.0 < momentum else inf
    if norm > limit:
        logger.warning(
            "server optimizer: a mean update of norm %.3g after a velocity of %.3g is cut to %.3g; momentum restarts",
            norm, usual, limit,
        )  # fmt: skip
        cut: FloatVector = np.float32(limit / norm) * mean
        return cut, cut
    if float(np.dot(mean, before)) < AGAINST * norm * usual:
        logger.info("server optimizer: the mean update turns against the velocity; momentum restarts")
        return mean.copy(), mean
    velocity: FloatVector = np.float32(momentum) * before + mean
    return velocity, _ahead(velocity, mean, momentum)


def _ahead(velocity: FloatVector, mean: FloatVector, momentum: float) -> FloatVector:
    ahead: FloatVector = np.float32(momentum) * velocity + mean
    return ahead
