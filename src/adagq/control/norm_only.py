"""The paper's motivation rule (its figure 2b): the levels follow the norm of the aggregate, the same for all.

    s_k = s_{k-1} + gain * log2(||g_k|| / ||g_{k-1}||)

A norm that halves takes `gain` levels away. The paper's gain is 1; there it is not said whether its s counts
levels or bits, and with 255 levels a gain of 1 is hardly felt, hence the knob.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adagq.control.controller import Pair, at_levels, number_from_json, number_to_json, usable_norm
from adagq.control.registry import CONTROLLERS
from adagq.core.codec import MAX_LEVELS, Codec
from adagq.core.errors import ConfigError
from adagq.core.messages import Choice, Facts


@dataclass(frozen=True, slots=True)
class NormOnlyState:
    """`levels` stays a real number; rounding it every round would lose every small step."""

    levels: float
    norm: float = math.nan  # the last usable one

    def to_json(self) -> dict[str, Any]:
        return {"levels": self.levels, "norm": number_to_json(self.norm)}


@CONTROLLERS.register("norm-only")
@dataclass(frozen=True, slots=True)
class NormOnly:
    """The rule above, starting from `levels`.

    >>> from adagq.codecs import QSGD
    >>> controller = NormOnly(levels=255)
    >>> state = controller.init(1)
    >>> for round, norm in ((1, math.nan), (2, 8.0), (3, 2.0)):
    ...     state = controller.observe(state, Facts(round, (), (), norm, 0.0))
    >>> controller.choose(state, [0], QSGD())[0].codec.levels
    253
    """

    levels: float = 255.0
    gain: float = 1.0
    levels_min: int = 1
    levels_max: int = MAX_LEVELS

    def __post_init__(self) -> None:
        if not 1 <= self.levels_min <= self.levels_max <= MAX_LEVELS:
            raise ConfigError(
                f"levels_min = {self.levels_min!r}, levels_max = {self.levels_max!r}: "
                f"must be 1 <= levels_min <= levels_max <= {MAX_LEVELS}"
            )
        if not self.levels_min <= self.levels <= self.levels_max:
            raise ConfigError(f"levels = {self.levels!r}: must be in {self.levels_min} … {self.levels_max}")
        if not math.isfinite(self.gain):
            raise ConfigError(f"gain = {self.gain!r}: must be a finite number")

    def init(self, clients: int) -> NormOnlyState:
        return NormOnlyState(levels=float(self.levels))

    def observe(self, state: NormOnlyState, facts: Facts) -> NormOnlyState:
        if not usable_norm(facts.norm):
            return state
        if not usable_norm(state.norm):
            return NormOnlyState(state.levels, facts.norm)
        moved = state.levels + self.gain * (math.log2(facts.norm) - math.log2(state.norm))
        return NormOnlyState(min(max(moved, self.levels_min), self.levels_max), facts.norm)

    def choose(self, state: NormOnlyState, cohort: Sequence[int], codec: Codec) -> dict[int, Choice]:
        return {client: Choice(at_levels(codec, round(state.levels))) for client in cohort}

    def probe(self, state: NormOnlyState, cohort: Sequence[int], codec: Codec) -> dict[int, Pair]:
        return {}

    def broadcast(self, state: NormOnlyState, elements: int) -> int | None:
        return None

    def from_json(self, data: Mapping[str, Any]) -> NormOnlyState:
        return NormOnlyState(levels=float(data["levels"]), norm=number_from_json(data["norm"]))
