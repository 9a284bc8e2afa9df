"""A row of your own, from a table of settings: a known method with some of its parts changed.

    [variants.coded-qsgd]
    base = "qsgd"
    uplink = { packing = "entropy", rounding = "dither" }       # other knobs of the same codec
    downlink = { kind = "qsgd", levels = 31 }                   # another codec
    controller = { kind = "fixed", by_client = { 3 = 15 } }
    epochs = 2

Then `methods = ["qsgd", "coded-qsgd"]`. Ablations and the paper's figures 2 and 3 are written this way.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, Final

from adagq.codecs import QSGD, Float16, Float32, SignSGD, TernGrad, TopK
from adagq.control import AdaGQ, Fit, Fixed, NormOnly
from adagq.errors import AdagqError, ConfigError
from adagq.methods import METHODS, Method, method_of

Changes = Mapping[str, Any]
CODECS: Final[Mapping[str, Any]] = {
    "float32": Float32, "float16": Float16, "qsgd": QSGD, "topk": TopK, "terngrad": TernGrad, "signsgd": SignSGD,
}  # fmt: skip
CONTROLLERS: Final[Mapping[str, Any]] = {"fixed": Fixed, "adagq": AdaGQ, "fit": Fit, "norm-only": NormOnly}
PARTS: Final = {"uplink": CODECS, "downlink": CODECS, "controller": CONTROLLERS}
KINDS: Final[Mapping[str, Any]] = {
    "label": str,
    "description": str,
    "epochs": int,
    "residual": bool,
    "rate_curve": bool,
}


def rows_of(variants: Mapping[str, Changes]) -> dict[str, Method]:
    """Return the rows that these tables describe; one may be the base of those after it.

    >>> rows_of({"two-bit": {"base": "qsgd", "uplink": {"levels": 3}}})["two-bit"].uplink.levels
    3
    """
    rows: dict[str, Method] = {}
    for name, changes in variants.items():
        if name in METHODS:
            raise ConfigError(f"variants.{name}: there is a method of this name; choose another")
        rows[name] = _row(name, changes, rows)
    return rows


def find(name: str, rows: Mapping[str, Method]) -> Method:
    """Return the row called `name`, one of `rows` or of the table of methods."""
    return rows[name] if name in rows else method_of(name)


def _row(name: str, changes: Any, known: Mapping[str, Method]) -> Method:
    where = f"variants.{name}"
    if not isinstance(changes, Mapping) or not isinstance(changes.get("base"), str):
        raise ConfigError(f'{where}: must be a table with base = "…", the method that it changes')
    row = find(changes["base"], known)
    parts: dict[str, Any] = {"name": name, "label": name}
    for key, value in changes.items():
        if key == "base":
            continue
        if key in PARTS:
            parts[key] = _part(f"{where}.{key}", getattr(row, key), value, PARTS[key])
        elif key not in KINDS:
            near = get_close_matches(key, (*PARTS, *KINDS), 1, 0.0)
            raise ConfigError(f"{where}: unknown key {key!r}: did you mean {near[0]!r}?")
        elif type(value) is not KINDS[key] or (key == "epochs" and value < 1):
            raise ConfigError(f"{where}.{key} = {value!r}: must be a {KINDS[key].__name__}")
        else:
            parts[key] = value
    return replace(row, **parts)


def _part(where: str, part: Any, changes: Any, kinds: Mapping[str, Any]) -> Any:
    """Return the codec or controller with its knobs changed, or one of another kind."""
    if not isinstance(changes, Mapping):
        raise ConfigError(f"{where} = {changes!r}: must be a table, such as {{ levels = 15 }}")
    knobs = dict(changes)
    kind = type(part)
    if (name := knobs.pop("kind", None)) is not None:
        if name not in kinds:
            raise ConfigError(f"{where}.kind = {name!r}: must be one of {', '.join(kinds)}")
        kind = kinds[name]
    known = [field.name for field in fields(kind)]
    for knob in knobs:
        if knob not in known:
            raise ConfigError(f"{where}: {kind.__name__} has no {knob!r}; it has {', '.join(known) or 'no settings'}")
    if "by_client" in knobs:
        knobs["by_client"] = {int(client): levels for client, levels in knobs["by_client"].items()}
    try:
        return replace(part, **knobs) if isinstance(part, kind) else kind(**knobs)
    except (AdagqError, TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from None
