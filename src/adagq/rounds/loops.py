"""LOOPS: the ways to run rounds, by name; a row of the table of methods names its own.

A loop takes (method, backend, schedule, state or None) and yields a `RoundResult` per step of the model.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from adagq.core.errors import ConfigError
from adagq.core.registry import Registry, suggestion
from adagq.methods.table import Method
from adagq.rounds.backend import Backend
from adagq.rounds.schedule import Schedule
from adagq.rounds.state import RoundResult, State

Loop = Callable[[Method, Backend, Schedule, State | None], Iterator[RoundResult]]
LOOPS: Registry[Loop] = Registry("loop", group="adagq.loops")


def steps_of(method: Method, rounds: int, clients: int) -> int:
    """Return the steps that a loop takes while a loop with a barrier takes so many rounds of all clients.

    A step without a barrier is a few arrivals, so a limit of rounds is one of work done, not of steps.
    """
    counted = getattr(loop_of(method), "steps_per_round", None)
    return rounds if counted is None else max(rounds, int(rounds * counted(clients)))


def loop_of(method: Method) -> Loop:
    """Return a method's loop, with the knobs that the method changes."""
    loop, knobs = LOOPS[method.loop], dict(method.loop_knobs)
    if not knobs:
        return loop
    known = _knobs(loop)
    for knob in knobs:
        if knob not in known:
            has = ", ".join(known) or "no settings"
            raise ConfigError(f"loop {method.loop!r} has no {knob!r}: {suggestion(knob, known)} It has {has}")
    return replace(loop, **knobs)  # type: ignore[type-var]


def _knobs(loop: Any) -> list[str]:
    return [field.name for field in fields(loop)] if is_dataclass(loop) else []
