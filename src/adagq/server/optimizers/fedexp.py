"""FedExP (Jhunjhunwala et al. 2023): a step as long as the clients' disagreement allows, with nothing to set.

    step = g * max(1, sum_i p_i |u_i|^2 / (2 (|g|^2 + epsilon)))

p_i is a client's share of the examples. Where clients disagree, their mean is short and the model may go further along
it. Quantization noise makes `g` longer than the mean of the updates: with unbiased codecs its energy is
sum_i p_i^2 |Q(u_i) - u_i|^2, which the receipts tell and which is taken out of |g|^2. Receipts are the clients' own
accounts: an energy counts up to LOUD times the median, and the step ends at `largest` times the mean.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Final

import numpy as np

from adagq.core.codec import Arrays
from adagq.core.messages import Receipt
from adagq.core.vectors import FloatVector, Layout, squared_norm
from adagq.server.optimizers.optimizer import OPTIMIZERS, Step, check_above, check_at_least_one

EPSILON: Final = 1e-12  # a mean of no energy has no step
LOUD: Final = 3.0  # times the median energy: what one client counts at most
LEAST_SIGNAL: Final = 0.05  # of |g|^2: what is left of it however much the receipts call noise
logger = logging.getLogger("adagq")


@OPTIMIZERS.register("fedexp")
@dataclass(frozen=True, slots=True)
class FedExP:
    """FedExP's extrapolation, at most `largest`.

    >>> optimizer, layout = FedExP(), Layout.of_sizes([2])
    >>> optimizer.step(np.array([1.0, 0.0], np.float32), {}, (), layout).vector.tolist()  # no receipts: plain
    [1.0, 0.0]
    """

    epsilon: float = EPSILON
    largest: float = 10.0

    def __post_init__(self) -> None:
        check_above("epsilon", self.epsilon, 0.0)
        check_at_least_one("largest", self.largest)

    def step(self, mean: FloatVector, state: Arrays, receipts: Sequence[Receipt], layout: Layout) -> Step:
        wanted = extrapolation(squared_norm(mean), receipts, self.epsilon)
        if wanted > self.largest:
            logger.info("server optimizer: fedexp's step of %.3g times the mean is cut to %g", wanted, self.largest)
        return Step(np.float32(min(wanted, self.largest)) * mean, {})


def extrapolation(energy: float, receipts: Sequence[Receipt], epsilon: float = EPSILON) -> float:
    """Return FedExP's factor for a mean of this energy."""
    usable = [r for r in receipts if 0.0 < r.energy < inf and 0.0 <= r.error_energy < inf and r.examples > 0]
    if not usable:
        return 1.0
    total = sum(receipt.examples for receipt in usable)
    loudest = LOUD * median(receipt.energy for receipt in usable)
    updates = noise = 0.0
    for receipt in usable:
        share, cut = receipt.examples / total, min(1.0, loudest / receipt.energy)
        updates += share * cut * receipt.energy
        noise += share**2 * cut * receipt.error_energy
    signal = max(energy - noise, LEAST_SIGNAL * energy)
    return max(1.0, updates / (2.0 * (signal + epsilon)))
