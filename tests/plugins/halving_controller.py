"""A controller of one's own: levels halve every `every` rounds, the same for all clients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adagq.control import CONTROLLERS
from adagq.control.controller import at_levels
from adagq.core.messages import Choice, Facts


@dataclass(frozen=True)
class Round:
    number: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"number": self.number}


@CONTROLLERS.register("halving")
@dataclass(frozen=True)
class Halving:
    levels: int = 255
    every: int = 1

    def init(self, clients: int) -> Round:
        return Round()

    def observe(self, state: Round, facts: Facts) -> Round:
        return Round(facts.round)

    def choose(self, state: Round, cohort: Sequence[int], codec: Any) -> dict[int, Choice]:
        levels = max(self.levels >> ((state.number - 1) // self.every), 1)
        return {client: Choice(at_levels(codec, levels)) for client in cohort}

    def probe(self, state: Round, cohort: Sequence[int], codec: Any) -> dict[int, Any]:
        return {}

    def broadcast(self, state: Round, elements: int) -> int | None:
        return None

    def from_json(self, data: Mapping[str, Any]) -> Round:
        return Round(data["number"])
