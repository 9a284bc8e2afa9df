"""FedAdam and FedYogi (Reddi et al. 2021), with one second moment per tensor.

    m = momentum * m + (1 - momentum) g
    v = second * v + (1 - second) s                                  adam
    v = v - (1 - second) s sign(v - s)                               yogi
    step = rate * m' / (sqrt(v') + epsilon)

`s` is the mean square of `g` over a tensor: quantized means are noisy, and a moment per element would divide the noise
by itself. `m'` and adam's `v'` are corrected for their start at zero, yogi's `v` starts at the first `s`; so the first
step of a tensor has the root mean square `rate`. `rate` is the step's size, whatever the size of `g`: it falls with
nothing by itself, so a run to a fine minimum wants a smaller one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.core.codec import Arrays
from adagq.core.messages import Receipt
from adagq.core.vectors import FloatVector, Layout
from adagq.server.optimizers.optimizer import OPTIMIZERS, Step, check_above, check_share

Moments = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Adaptive:
    """What both share: the first moment, the division, the memory."""

    rate: float = 0.01
    momentum: float = 0.9
    second: float = 0.99
    epsilon: float = 1e-3  # the least root of the second moment that counts, as in the paper

    def __post_init__(self) -> None:
        check_above("rate", self.rate, 0.0)
        check_above("epsilon", self.epsilon, 0.0)
        check_share("momentum", self.momentum)
        check_share("second", self.second)

    def step(self, mean: FloatVector, state: Arrays, receipts: Sequence[Receipt], layout: Layout) -> Step:
        rounds = int(state["rounds"][0]) + 1 if state else 1
        first: FloatVector = np.float32(1 - self.momentum) * mean
        if state:
            first += np.float32(self.momentum) * state["first"]
        squares = _mean_squares(mean, layout)
        second = self._second(squares, state.get("second"))
        scale = self.rate / (1 - self.momentum**rounds) / (np.sqrt(self._corrected(second, rounds)) + self.epsilon)
        vector: FloatVector = first * np.repeat(scale.astype(np.float32), layout.sizes)
        return Step(vector, {"first": first, "second": second, "rounds": np.array([rounds])})

    def _second(self, squares: Moments, before: NDArray[Any] | None) -> Moments:
        raise NotImplementedError

    def _corrected(self, second: Moments, rounds: int) -> Moments:
        return second


@OPTIMIZERS.register("adam")
@dataclass(frozen=True, slots=True)
class Adam(_Adaptive):
    """FedAdam.

    >>> g, layout = np.array([3.0, -4.0], np.float32), Layout.of_sizes([1, 1])
    >>> Adam(rate=0.5, epsilon=1e-9).step(g, {}, (), layout).vector.tolist()
    [0.5, -0.5]
    """

    def _second(self, squares: Moments, before: NDArray[Any] | None) -> Moments:
        moments: Moments = (1 - self.second) * squares + (0.0 if before is None else self.second * before)
        return moments

    def _corrected(self, second: Moments, rounds: int) -> Moments:
        return second / (1 - self.second**rounds)


@OPTIMIZERS.register("yogi")
@dataclass(frozen=True, slots=True)
class Yogi(_Adaptive):
    """FedYogi: a second moment that moves by its difference's sign, so that one large mean does not stop it for long.

    >>> g, layout = np.array([3.0, -4.0], np.float32), Layout.of_sizes([1, 1])
    >>> Yogi(rate=0.5, epsilon=1e-9).step(g, {}, (), layout).vector.tolist()
    [0.5, -0.5]
    """

    def _second(self, squares: Moments, before: NDArray[Any] | None) -> Moments:
        if before is None:
            return squares
        moments: Moments = before - (1 - self.second) * squares * np.sign(before - squares)
        return moments


def _mean_squares(vector: FloatVector, layout: Layout) -> Moments:
    """Return the mean square of each tensor; 0 of an empty one."""
    ends = np.cumsum(layout.sizes)
    parts = [vector[end - size : end] for size, end in zip(layout.sizes, ends, strict=True)]
    return np.array([float(np.dot(part, part)) / max(part.size, 1) for part in parts])
