"""Adaptive k for Top-k (Han, Wang and Leung 2020): the sign of an estimated derivative of the time per loss.

    tau  = T(k),    tau' = T(k') (L_- - L) / (L_- - L'),    k' = k - eta / 2
    k <- clip(k - eta sign((tau - tau') / (k - k')), k_min, k_max),      eta = (k_max - k_min) / sqrt(2 t)

L_-, L and L' are the losses before the last step, after it, and had it been sent with k'; T(k) is how long the slowest
client takes, its upload in proportion to k. t counts the updates of k. Where a loss did not fall k is held; after ten
holds in a row it rises by eta. Every 20 updates the range shrinks to two thirds around k, within k_min … k_max.
k is a share of the entries here. What is settled on: the losses are those of the probe that AdaGQ has too (clients
re-encode the aggregate with either k). The fair choice of k entries over all clients is the server's (`choosing`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

from adagq.codecs.fair import FairTopK
from adagq.codecs.topk import TopK
from adagq.control.controller import Pair, plausible_loss, plausible_seconds
from adagq.control.registry import CONTROLLERS
from adagq.core.codec import Codec
from adagq.core.errors import ConfigError
from adagq.core.messages import Choice, Facts, Receipt

HOLDS, SHRINK_EVERY, SHRINK = 10, 20, 1.5


@dataclass(frozen=True, slots=True)
class HanState:
    """k, its present range, how often it was updated, how often it was held in a row."""

    fraction: float
    low: float
    high: float
    round: int = 0
    updates: int = 0
    holds: int = 0

    @property
    def eta(self) -> float:
        return (self.high - self.low) / math.sqrt(2.0 * (self.updates + 1))

    @property
    def probed(self) -> float:
        """k', within the range; above k where there is no room below."""
        lower = self.fraction - self.eta / 2
        return lower if lower >= self.low else self.fraction + self.eta / 2

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@CONTROLLERS.register("han")
@dataclass(frozen=True, slots=True)
class Han:
    """The rule above, from the share `fraction` on.

    >>> state = Han(fraction=0.1, low=0.0, high=0.2).init(1)
    >>> round(state.eta, 4), round(state.probed, 4)
    (0.1414, 0.0293)
    """

    reads_losses: ClassVar[bool] = True

    fraction: float = 0.1
    low: float = 0.002
    high: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.low < self.high <= 1.0 or not self.low <= self.fraction <= self.high or not self.fraction:
            raise ConfigError(
                f"fraction = {self.fraction!r}, low = {self.low!r}, high = {self.high!r}: "
                "must be 0 <= low <= fraction <= high <= 1, fraction above 0"
            )

    def init(self, clients: int) -> HanState:
        return HanState(self.fraction, self.low, self.high)

    def observe(self, state: HanState, facts: Facts) -> HanState:
        state = replace(state, round=facts.round)
        names = ("loss_before", "loss_after", "loss_probe")
        reports = [one for one in facts.reports if all(plausible_loss(getattr(one, name)) for name in names)]
        times = _times(facts.receipts, state.probed / state.fraction)
        if not reports or times is None:
            return state
        before, after, probed = (fmean(getattr(one, name) for one in reports) for name in names)
        return self._updated(state, before - after, before - probed, *times)

    def _updated(self, state: HanState, fall: float, probed_fall: float, seconds: float, probed: float) -> HanState:
        """Return the state after one look at how far the loss fell, and would have fallen, in how many seconds."""
        eta = state.eta
        if fall <= 0.0 or probed_fall <= 0.0:
            held = replace(state, holds=state.holds + 1)
            return held if held.holds < HOLDS else self._moved(held, state.fraction + eta)
        slope = (seconds - probed * fall / probed_fall) / (state.fraction - state.probed)
        return self._moved(state, state.fraction - math.copysign(eta, slope) if slope else state.fraction)

    def _moved(self, state: HanState, fraction: float) -> HanState:
        updates = state.updates + 1
        fraction = min(max(fraction, state.low), state.high)
        low, high = state.low, state.high
        if updates % SHRINK_EVERY == 0:
            half = (high - low) / SHRINK / 2
            low, high = max(fraction - half, self.low), min(fraction + half, self.high)
        smallest = min(self.fraction, 1e-4)  # a share of 0 would send nothing for ever
        return replace(state, fraction=max(fraction, smallest), low=low, high=high, updates=updates, holds=0)

    def choose(self, state: HanState, cohort: Sequence[int], codec: Codec) -> dict[int, Choice]:
        chosen = _with_fraction(codec, state.fraction)
        return {client: Choice(chosen) for client in cohort}

    def probe(self, state: HanState, cohort: Sequence[int], codec: Codec) -> dict[int, Pair]:
        if state.round == 0:  # before the first aggregate there is nothing to encode again
            return {}
        pair = _with_fraction(codec, state.fraction), _with_fraction(codec, state.probed)
        return dict.fromkeys(cohort, pair)

    def broadcast(self, state: HanState, elements: int) -> int | None:
        return None

    def from_json(self, data: Mapping[str, Any]) -> HanState:
        return HanState(**data)


def _with_fraction(codec: Codec, fraction: float) -> Codec:
    return replace(codec, fraction=min(fraction, 1.0)) if isinstance(codec, TopK | FairTopK) else codec


def _times(receipts: Sequence[Receipt], ratio: float) -> tuple[float, float] | None:
    """Return T(k) and T(k') of the slowest client, its upload `ratio` times as long; None if nothing is known."""
    known = [one for one in receipts if plausible_seconds(one.busy_seconds)]
    if not known:
        return None
    now = max(one.busy_seconds for one in known)
    then = max(one.busy_seconds + (ratio - 1.0) * one.upload_seconds for one in known)
    return now, max(then, 0.0)
