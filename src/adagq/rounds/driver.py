"""Runs a method's loop until its goal is met, and lets observers see every closed round.

    for result in drive(method, backend, schedule, goal, observers=[directory.append, …]): …

What happens with a round is the observers' business: a run directory writes it down, a progress bar shows it, Flower's
strategy collects it. They are called in order before the result is handed on.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from adagq.codecs.withholding import CMFL
from adagq.core.errors import ConfigError
from adagq.methods.table import Method
from adagq.rounds.backend import Backend
from adagq.rounds.loops import loop_of
from adagq.rounds.schedule import Schedule
from adagq.rounds.state import RoundResult, State

logger = logging.getLogger("adagq")
Row = Mapping[str, Any]
Observer = Callable[[RoundResult], object]


@dataclass(frozen=True, slots=True)
class Goal:
    """When a run ends: `extra_rounds` past the target accuracy, or at `max_rounds` without it."""

    target: float
    max_rounds: int
    extra_rounds: int = 0

    def reached(self, row: Row) -> bool:
        return (row["accuracy"] or 0.0) >= self.target

    def met(self, rows: Sequence[Row]) -> bool:
        """Whether a run with these rows is at its end."""
        first = next((row["round"] for row in rows if self.reached(row)), None)
        last = self.max_rounds if first is None else first + self.extra_rounds
        return bool(rows) and rows[-1]["round"] >= last

    def decisive(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that decide whether the run is at its end: the first at the target, and the last."""
        return [*islice(filter(self.reached, rows[:-1]), 1), *rows[-1:]]


def drive(
    method: Method,
    backend: Backend,
    schedule: Schedule,
    goal: Goal,
    *,
    state: State | None = None,
    past: Sequence[Row] = (),
    observers: Iterable[Observer] = (),
) -> Iterator[RoundResult]:
    """Yield closed rounds until the goal is met; `past` are the rows of a run that goes on from `state`."""
    schedule.privacy.check(schedule.aggregate, layout=backend.layout)
    if schedule.privacy.central and isinstance(method.uplink, CMFL):
        raise ConfigError(
            f"training.privacy: clients of {method.name} hold updates back by what is in them: noise at the server "
            'does not hide; use training.privacy.noise = "clients"'
        )
    if schedule.privacy.on and getattr(method.controller, "reads_losses", False):
        logger.warning("%s adapts to clients' losses, which are private: it goes on without them", method.name)
    rows: Sequence[Row] = past
    watching = tuple(observers)
    for result in loop_of(method)(method, backend, schedule, state):
        for observe in watching:
            observe(result)
        rows = goal.decisive([*rows, result.row])
        yield result
        if goal.met(rows):
            return
