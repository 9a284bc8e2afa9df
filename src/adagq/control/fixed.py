"""The same levels in every round, for all clients or each its own: QSGD, FedPAQ, and every codec without levels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from adagq.control.controller import Pair, at_levels
from adagq.control.registry import CONTROLLERS
from adagq.core.codec import MAX_LEVELS, Codec
from adagq.core.errors import ConfigError
from adagq.core.messages import Choice, Facts


@dataclass(frozen=True, slots=True)
class FixedState:
    """Nothing to remember."""

    def to_json(self) -> dict[str, Any]:
        return {}


@CONTROLLERS.register("fixed")
@dataclass(frozen=True, slots=True)
class Fixed:
    """s_i = `levels`, or what `by_client` says; 0 leaves the codec as it is.

    >>> from adagq.codecs import QSGD
    >>> controller = Fixed(levels=255, by_client={1: 15})
    >>> choices = controller.choose(controller.init(2), [0, 1], QSGD())
    >>> [choice.codec.levels for choice in choices.values()]
    [255, 15]
    """

    levels: int = 0
    by_client: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for levels in (self.levels, *self.by_client.values()):
            if not 0 <= levels <= MAX_LEVELS:
                raise ConfigError(f"levels = {levels!r}: must be in 0 … {MAX_LEVELS}")

    def init(self, clients: int) -> FixedState:
        return FixedState()

    def observe(self, state: FixedState, facts: Facts) -> FixedState:
        return state

    def choose(self, state: FixedState, cohort: Sequence[int], codec: Codec) -> dict[int, Choice]:
        return {client: Choice(at_levels(codec, self.by_client.get(client, self.levels))) for client in cohort}

    def probe(self, state: FixedState, cohort: Sequence[int], codec: Codec) -> dict[int, Pair]:
        return {}

    def broadcast(self, state: FixedState, elements: int) -> int | None:
        return None

    def from_json(self, data: Mapping[str, Any]) -> FixedState:
        return FixedState()
