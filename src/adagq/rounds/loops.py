"""LOOPS: the ways to run rounds, by name; a row of the table of methods names its own.

A loop takes (method, backend, schedule, state or None) and yields a `RoundResult` per step of the model.
"""

from collections.abc import Callable, Iterator

from adagq.core.registry import Registry
from adagq.methods.table import Method
from adagq.rounds.backend import Backend
from adagq.rounds.schedule import Schedule
from adagq.rounds.state import RoundResult, State

Loop = Callable[[Method, Backend, Schedule, State | None], Iterator[RoundResult]]
LOOPS: Registry[Loop] = Registry("loop", group="adagq.loops")
