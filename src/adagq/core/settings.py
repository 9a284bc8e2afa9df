"""Settings: pydantic checks them, and a mistake is one line with the key, the value and what is allowed.

    @settings("task")                            # a frozen dataclass; unknown keys are an error
    class Task:
        batch_size: Annotated[Whole, Field(ge=2)] = 32
        momentum: Annotated[Number, Field(ge=0, lt=1)] = 0.0
        uplink_mbps: Annotated[Span, Each(gt=0)] = (5.0, 20.0)

    Task(momentum=2)                             # ConfigError: task.momentum = 2: must be a number >= 0 and < 1
    Task(batchsize=2)                            # ConfigError: unknown key 'task.batchsize': did you mean …?

Types are strict: a setting that is a number takes no text and no `true`.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform, get_args, get_origin

import annotated_types
from pydantic import ConfigDict, GetCoreSchemaHandler, Strict, ValidationError
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from adagq.core.errors import ConfigError
from adagq.core.registry import suggestion

Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Text = Annotated[str, Strict()]
Flag = Annotated[bool, Strict()]
Span = float | tuple[float, float]  # one value for all, or a range: each client draws its own, uniformly

UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")  # pydantic's names, of models and dataclasses
MISSING = ("missing", "missing_argument")
SIGNS = {
    annotated_types.Gt: (">", "gt"),
    annotated_types.Ge: (">=", "ge"),
    annotated_types.Lt: ("<", "lt"),
    annotated_types.Le: ("<=", "le"),
}
NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
Made = TypeVar("Made")


@dataclasses.dataclass(frozen=True)
class Each:
    """Limits of a `Span`: of its one number, or of both of its ends, which must not fall."""

    gt: float | None = None
    ge: float | None = None
    le: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._checked)

    def _checked(self, value: Any) -> Span:
        pair = isinstance(value, list | tuple)
        numbers = tuple(value) if pair else (value,)
        if len(numbers) != 1 + pair or not all(map(self._fits, numbers)) or numbers[0] > numbers[-1]:
            raise ValueError(f"must be a number or [low, high] {self.range()}")
        floats = tuple(map(float, numbers))
        return (floats[0], floats[1]) if pair else floats[0]

    def _fits(self, number: Any) -> bool:
        if isinstance(number, bool) or not isinstance(number, int | float) or math.isnan(number):
            return False
        above = (self.gt is None or number > self.gt) and (self.ge is None or number >= self.ge)
        return above and (self.le is None or number <= self.le)

    def range(self) -> str:
        """Return the limits as text."""
        limits = ((">", self.gt), (">=", self.ge), ("<=", self.le))
        return " and ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)


@dataclass_transform(frozen_default=True)
def settings(table: str = "") -> Callable[[type[Made]], type[Made]]:
    """Return a decorator: a frozen pydantic dataclass whose mistakes are a `ConfigError` with keys of `table`."""

    def make(kind: type[Made]) -> type[Made]:
        made: Any = dataclass(frozen=True, config=ConfigDict(extra="forbid"))(kind)
        check = made.__init__

        @functools.wraps(check)
        def init(self: Any, *positional: Any, **named: Any) -> None:
            try:
                check(self, *positional, **named)
            except ValidationError as invalid:
                raise config_error(invalid, made, table) from None

        made.__init__ = init
        return made  # type: ignore[no-any-return]

    return make


def config_error(invalid: ValidationError, kind: Any, where: str = "") -> ConfigError:
    """Return the first mistake in `kind`'s fields as one line; `where` is the table that holds these fields."""
    errors = invalid.errors(include_url=False)
    # A mistyped key comes first: it explains why another one is missing.
    first = next((error for error in errors if error["type"] in UNKNOWN_KEY), errors[0])
    steps, owner, field = _place(kind, first["loc"])
    key = _dotted(where, *steps)
    if first["type"] in UNKNOWN_KEY:
        siblings = (_dotted(where, *steps[:-1], name) for name in _fields(owner))
        return unknown_key(key, [*siblings, *(_dotted(where, known) for known in keys_of(kind))])
    return ConfigError(_message(first, key, field))


def unknown_key(key: str, known: Iterable[str]) -> ConfigError:
    """Return the error of a key that is not known, with the nearest one that is."""
    return ConfigError(f"unknown key {key!r}: {suggestion(key, known)}")


def keys_of(kind: Any, prefix: str = "") -> Iterator[str]:
    """Yield every key of a settings class, those of its tables with dots.

    >>> @settings()
    ... class Inner:
    ...     x: int = 0
    >>> @settings()
    ... class Outer:
    ...     inner: Inner = Inner()
    >>> list(keys_of(Outer))
    ['inner', 'inner.x']
    """
    for name, field in _fields(kind).items():
        yield prefix + name
        yield from keys_of(field.annotation, f"{prefix}{name}.")


def allowed(field: FieldInfo) -> str:
    """Return what a field takes, in words: `a whole number >= 1`."""
    kind = _without_none(field.annotation)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    parts = list(_metadata(field))
    limits = [(*SIGNS[type(part)], part) for part in parts if type(part) in SIGNS]
    words = " and ".join(f"{sign} {getattr(part, name):g}" for sign, name, part in limits)
    said = next((part.description for part in [field, *parts] if getattr(part, "description", None)), None)
    name = said or NAMES.get(kind) or ("a table" if _fields(kind) or get_origin(kind) is dict else "an array")
    return f"{name} {words}".strip()


def _metadata(field: FieldInfo) -> Iterator[Any]:
    """Yield what a field is annotated with, inside `X | None` too."""
    inner = (part for kind in get_args(field.annotation) for part in getattr(kind, "__metadata__", ()))
    for part in (*field.metadata, *inner):
        yield part
        yield from part.metadata if isinstance(part, FieldInfo) else ()


def _message(first: ErrorDetails, key: str, field: FieldInfo | None) -> str:
    error, value = first["msg"].removeprefix("Value error, "), first["input"]
    if first["type"] == "value_error":
        # A check over several keys names them itself: its input is the whole table.
        whole = field is None or _fields(_without_none(field.annotation))
        return error if whole else f"{key} = {_shown(value)}: {error}"
    takes = "a table" if field is None else allowed(field)
    return (
        f"{key}: not set; it must be {takes}"
        if first["type"] in MISSING
        else f"{key} = {_shown(value)}: must be {takes}"
    )


def _shown(value: Any) -> str:
    return repr(list(value) if isinstance(value, tuple) else value)


def _place(kind: Any, path: tuple[int | str, ...]) -> tuple[tuple[int | str, ...], Any, FieldInfo | None]:
    """Follow an error's path: the steps that a user wrote, the class at its end, and the last field."""
    steps: list[int | str] = []
    owner, field = kind, None
    for step in path:
        if fields := _fields(kind):
            owner, field = kind, fields.get(str(step))
        elif get_origin(kind) not in (tuple, list, dict):
            break  # pydantic adds which member of a union failed
        steps.append(step)
        inner = field.annotation if fields and field else next((k for k in get_args(kind)[::-1] if k is not ...), None)
        kind = _without_none(inner)
    return tuple(steps), owner, field


def _without_none(kind: Any) -> Any:
    kinds = [part for part in get_args(kind) if part is not type(None)]
    kind = kinds[0] if type(None) in get_args(kind) else kind
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _fields(kind: Any) -> dict[str, FieldInfo]:
    return getattr(kind, "__pydantic_fields__", {}) if isinstance(kind, type) else {}


def _dotted(*steps: int | str) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps if step != "")
    return text.removeprefix(".")
