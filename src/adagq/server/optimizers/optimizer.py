"""The contract of a server optimizer, the registry, and the checks that their settings share."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol

from adagq.core.codec import Arrays
from adagq.core.errors import ConfigError
from adagq.core.messages import Receipt
from adagq.core.registry import Registry, make_part
from adagq.core.vectors import FloatVector, Layout


class Step(NamedTuple):
    """What the model moves by, and the optimizer's memory after it."""

    vector: FloatVector
    state: Arrays


class Optimizer(Protocol):
    """A frozen value; see the package's docstring."""

    def step(self, mean: FloatVector, state: Arrays, receipts: Sequence[Receipt], layout: Layout) -> Step:
        """Return the step for a round's mean update; `state` is {} at first, `receipts` are the round's."""
        ...


OPTIMIZERS: Registry[Any] = Registry("server optimizer", group="adagq.optimizers")


def optimizer_of(plain: Mapping[str, Any]) -> Optimizer:
    """Return an optimizer from plain settings.

    >>> optimizer_of({"kind": "nesterov", "momentum": 0.9})
    Nesterov(momentum=0.9, rate=1.0)
    """
    made: Optimizer = make_part(OPTIMIZERS, plain)
    return made


def check_above(name: str, value: float, low: float) -> None:
    """Raise ConfigError unless `value` is a finite number above `low`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low < value < inf:
        raise ConfigError(f"{name} = {value!r}: must be a number above {low:g}")


def check_share(name: str, value: float) -> None:
    """Raise ConfigError unless `value` is a number from 0 to below 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < 1.0:
        raise ConfigError(f"{name} = {value!r}: must be a number from 0 to below 1")


def check_at_least_one(name: str, value: float) -> None:
    """Raise ConfigError unless `value` is a finite number >= 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1.0 <= value < inf:
        raise ConfigError(f"{name} = {value!r}: must be a number >= 1")
