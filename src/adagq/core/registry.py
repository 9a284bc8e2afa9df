"""Registries: one dictionary per kind of part, filled by the files that define the parts.

    CONTROLLERS: Registry[Any] = Registry("controller", group="adagq.controllers")

    @CONTROLLERS.register("fixed")
    class Fixed: …

    CONTROLLERS["fixd"]          # ConfigError: unknown controller 'fixd': did you mean 'fixed'? Known: …

Another package adds a part by an entry point of the same group; its module is imported when a name is looked for that
is not here, or when the registry is listed. `modules.load_plugin` imports a file or a module that registers its own
parts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from adagq.core.errors import ConfigError

Part = TypeVar("Part")
New = TypeVar("New")


def suggestion(name: object, known: Iterable[str]) -> str:
    """Return `did you mean '…'?` with the nearest known name; empty if nothing is known.

    >>> suggestion("adaqg", ["fedavg", "adagq"])
    "did you mean 'adagq'?"
    """
    near = get_close_matches(str(name), list(known), 1, 0.0)
    return f"did you mean {near[0]!r}?" if near else ""


class Registry(Mapping[str, Part], Generic[Part]):
    """Name -> part, in the order of registration. `what` names a part in error messages."""

    def __init__(self, what: str, group: str) -> None:
        self.what = what
        self._group = group
        self._parts: dict[str, Part] = {}
        self._complete = False

    def register(self, name: str) -> Callable[[New], New]:
        """Return a decorator that adds the part under `name`."""

        def add(part: New) -> New:
            self.add(name, part)  # type: ignore[arg-type]
            return part

        return add

    def add(self, name: str, part: Part) -> Part:
        """Add a part and return it; a name that is taken by another one is an error."""
        if name in self._parts and self._parts[name] is not part:
            raise ConfigError(f"there is a {self.what} called {name!r} already; choose another name")
        self._parts[name] = part
        return part

    def __getitem__(self, name: str) -> Part:
        if name not in self._parts:
            self._import_entry_points()
        try:
            return self._parts[name]
        except (KeyError, TypeError):
            known = ", ".join(self._parts)
            hint = suggestion(name, self._parts)
            raise ConfigError(f"unknown {self.what} {name!r}: {hint} Known: {known}") from None

    def __contains__(self, name: object) -> bool:
        if name not in self._parts:
            self._import_entry_points()
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        self._import_entry_points()
        return iter(dict(self._parts))

    def __len__(self) -> int:
        self._import_entry_points()
        return len(self._parts)

    def name_of(self, part: object) -> str:
        """Return the name of a part; KeyError if it was never registered."""
        return next((name for name, known in self._parts.items() if known is part), None) or _unknown(self.what, part)

    def _import_entry_points(self) -> None:
        if self._complete:
            return
        self._complete = True
        for point in entry_points(group=self._group):
            part = point.load()  # importing it may have registered it already
            if point.name not in self._parts:
                self._parts[point.name] = part


def make_part(registry: Registry[Any], plain: Mapping[str, Any], before: Any = None) -> Any:
    """Return a part from plain settings: its `kind` and its knobs; without a kind it is `before`, its knobs changed."""
    knobs = dict(plain)
    if "kind" not in knobs and before is None:
        raise ConfigError(f"a {registry.what} needs a kind, one of {', '.join(registry)}")
    kind = registry[knobs.pop("kind")] if "kind" in knobs else type(before)
    known = [field.name for field in fields(kind)]
    for knob in knobs:
        if knob not in known:
            has = ", ".join(known) or "no settings"
            raise ConfigError(f"{registry.name_of(kind)} has no {knob!r}: {suggestion(knob, known)} It has {has}")
    return replace(before, **knobs) if isinstance(before, kind) else kind(**knobs)


def _unknown(what: str, part: object) -> str:
    raise KeyError(f"{part!r} is no registered {what}")
