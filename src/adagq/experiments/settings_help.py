"""Every settings key with its type, default and meaning, read from the settings classes themselves.

A field's meaning is the comment beside or above it or, where it has none, its description; its default is the one that
a run gets, with default.toml on top of the class's own.
"""

import dataclasses
import inspect
import io
import tokenize
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from adagq.core.errors import ConfigError
from adagq.core.registry import suggestion
from adagq.experiments.config import KEYS, Config, load_config

UNITS: Final = {"_mbps": "Mbit/s", "_seconds": "s", "_per_second": "1/s", "_per_element": "s"}
WORDS: Final = {int: "whole number", float: "number", str: "text", bool: "true or false", type(None): ""}
HEAD: Final = """\
# Settings of adagq. Every key stands here with its default; uncomment what you want to change.
# `adagq compare {name}` runs it, `--set key=value` changes a key for one run, `adagq config` lists the keys.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One key, with dots between tables."""

    key: str
    kind: str
    unit: str
    default: Any
    meaning: str


def settings_under(prefix: str = "") -> list[Setting]:
    """Return the settings whose keys begin with `prefix`; an unknown one is an error that names the nearest."""
    found = [setting for setting in _settings(Config, load_config(), "") if setting.key.startswith(prefix)]
    if not found:
        raise ConfigError(f"no key begins with {prefix!r}: {suggestion(prefix, KEYS)}")
    return found


def commented_toml(name: str = "adagq.toml") -> str:
    """Return a settings file in which every key stands with its default, commented out."""
    tables: dict[str, list[Setting]] = {}
    for setting in settings_under():
        tables.setdefault(setting.key.rpartition(".")[0], []).append(setting)
    lines = [HEAD.format(name=name)]
    for table, settings in tables.items():
        if table:
            lines += ["", f"[{table}]"]
        for setting in settings:
            lines.append(_toml_line(setting))
    return "\n".join(lines) + "\n"


def _toml_line(setting: Setting) -> str:
    import tomli_w

    leaf = setting.key.rpartition(".")[2]
    about = ", ".join(part for part in (setting.kind, setting.unit) if part)
    note = f"{setting.meaning} ({about})" if setting.meaning else about
    if setting.default in (None, (), {}):
        return f"# {leaf} =   # not set; {note}"
    value = list(setting.default) if isinstance(setting.default, tuple) else setting.default
    text = " ".join(tomli_w.dumps({leaf: value}).replace(",\n]", "\n]").split())
    return f"# {text}  # {note}"


def _settings(kind: Any, values: Any, prefix: str) -> Iterator[Setting]:
    comments = _comments(kind)
    for name, hint in get_type_hints(kind).items():
        key, value = prefix + name, getattr(values, name, None)
        if key not in KEYS:
            continue
        if dataclasses.is_dataclass(hint) or (isinstance(hint, type) and issubclass(hint, BaseModel)):
            yield from _settings(hint, value, f"{key}.")
            continue
        unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
        meaning = comments.get(name, "") or _description(kind, name)
        yield Setting(key, _kind_text(hint), unit, value, meaning.replace("None", "not set"))


def _description(kind: Any, name: str) -> str:
    fields: Mapping[str, Any] = getattr(kind, "model_fields", None) or getattr(kind, "__pydantic_fields__", {})
    return getattr(fields.get(name), "description", None) or ""


def _kind_text(hint: Any) -> str:
    """Return a type in the words of a settings file.

    >>> _kind_text(float | tuple[float, float] | None), _kind_text(tuple[str, ...])
    ('number or [low, high]', 'list of text')
    """
    if hint in WORDS:
        return WORDS[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        return " or ".join(dict.fromkeys(filter(None, map(_kind_text, inner))))
    if origin is tuple and inner[-1] is Ellipsis:
        return f"list of {_kind_text(inner[0])}"
    if origin is tuple:
        return "[low, high]" if len(inner) == 2 else f"list of {len(inner)}"
    if origin is Literal:
        return " or ".join(f'"{value}"' for value in inner)
    if origin is dict:
        return "tables"
    return "table" if isinstance(hint, type) else str(hint)


def _comments(kind: Any) -> dict[str, str]:
    """Return the comment beside each field of a class or, if there is none, the one above it."""
    found: dict[str, str] = {}
    above: list[str] = []
    fields = set(get_type_hints(kind))
    beside = ""
    for token in tokenize.generate_tokens(io.StringIO(inspect.getsource(kind)).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.removeprefix("#").strip()
            if token.line.lstrip().startswith("#"):
                above.append(text)
            elif beside:
                found[beside] = text
        elif (
            token.type == tokenize.NAME and token.string in fields and token.line.split(":")[0].strip() == token.string
        ):
            beside = token.string
            if above:
                found.setdefault(beside, " ".join(above))
        elif token.type == tokenize.NEWLINE:
            above, beside = [], ""
    return found
