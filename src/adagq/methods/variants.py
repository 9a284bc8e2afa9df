"""A row of your own, from a table of settings: a known method with some of its parts changed.

    [variants.coded-qsgd]
    base = "qsgd"
    uplink = { packing = "entropy", rounding = "dither" }       # other knobs of the same codec
    downlink = { kind = "qsgd", levels = 31 }                   # another codec
    controller = { kind = "fixed", by_client = { 3 = 15 } }
    optimizer = { kind = "nesterov", momentum = 0.7 }           # of the server
    loop = { kind = "fedbuff", arrivals = 5, exponent = 1.0 }   # or a name alone
    epochs = 2

Then `methods = ["qsgd", "coded-qsgd"]`. Ablations and the paper's figures 2 and 3 are written this way.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from adagq.client.optimizers import CLIENT_OPTIMIZERS
from adagq.codecs.registry import CODECS, codec_from_plain, codec_to_plain
from adagq.control import CONTROLLERS
from adagq.core.errors import AdagqError, ConfigError
from adagq.core.registry import Registry, make_part
from adagq.core.settings import Flag, Number, Text, config_error
from adagq.methods.table import METHODS, Method, method_of, with_suffixes
from adagq.server.optimizers import OPTIMIZERS

# The parts of a row that settings may change or replace by another kind.
PARTS: Final[Mapping[str, Registry[Any]]] = {
    "uplink": CODECS, "downlink": CODECS, "controller": CONTROLLERS, "optimizer": OPTIMIZERS,
    "client_optimizer": CLIENT_OPTIMIZERS,
}  # fmt: skip
Part = Annotated[dict[str, Any], Field(description="a table, such as { levels = 15 }")]


class Variant(BaseModel):
    """One table under `variants`: the method that it starts from, and what differs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: Annotated[Text, Field(description="the name of the method that it changes")]
    label: Text | None = None
    description: Text | None = None
    epochs: Annotated[Number, Field(gt=0)] | None = None
    residual: Flag | None = None
    rate_curve: Flag | None = None
    uplink: Part | None = None
    downlink: Part | None = None
    controller: Part | None = None
    optimizer: Part | None = None
    client_optimizer: Part | None = None
    loop: Text | Part | None = None
    aggregate: Text | None = None


VARIANTS: Final = TypeAdapter(dict[str, Variant])


def rows_of(variants: Mapping[str, Variant | Mapping[str, Any]]) -> dict[str, Method]:
    """Return the rows that these tables describe; one may be the base of those after it.

    >>> rows_of({"two-bit": {"base": "qsgd", "uplink": {"levels": 3}}})["two-bit"].uplink.levels
    3
    """
    try:
        tables = VARIANTS.validate_python(variants)
    except ValidationError as invalid:
        raise config_error(invalid, dict[str, Variant], "variants") from None
    rows: dict[str, Method] = {}
    for name, variant in tables.items():
        if name in METHODS:
            raise ConfigError(f"variants.{name}: there is a method of this name; choose another")
        rows[name] = _row(name, variant, find(variant.base, rows))
    return rows


def find(name: str, rows: Mapping[str, Method]) -> Method:
    """Return the row called `name`, one of `rows` or of the table of methods, with what its suffixes add."""
    base, *suffixes = name.split("+")
    return with_suffixes(rows[base], suffixes) if base in rows else method_of(name)


def _row(name: str, variant: Variant, base: Method) -> Method:
    """Return the row `base` with what the variant changes."""
    changes = variant.model_dump(exclude={"base"}, exclude_none=True)
    for key in PARTS.keys() & changes.keys():
        try:
            changes[key] = _changed(getattr(base, key), changes[key], PARTS[key])
        except (AdagqError, TypeError, ValueError) as error:
            raise ConfigError(f"variants.{name}.{key}: {error}") from None
    if "loop" in changes:
        changes |= _loop(name, changes["loop"], base)
    return replace(base, **{"name": name, "label": name} | changes)


def _loop(name: str, given: str | Mapping[str, Any], base: Method) -> dict[str, Any]:
    """Return the loop's name and its knobs, from a name alone or a table such as { kind = "fedbuff", arrivals = 5 }."""
    knobs = {"kind": given} if isinstance(given, str) else dict(given)
    kind = knobs.pop("kind", base.loop)
    if not isinstance(kind, str):
        raise ConfigError(f"variants.{name}.loop.kind = {kind!r}: must be the name of a loop")
    before = dict(base.loop_knobs) if kind == base.loop and not isinstance(given, str) else {}
    return {"loop": kind, "loop_knobs": tuple((before | knobs).items())}


def _changed(part: Any, changes: Mapping[str, Any], kinds: Registry[Any]) -> Any:
    """Return the part with its knobs changed, or one of another kind."""
    if kinds is CODECS:
        before = codec_to_plain(part)
        same = changes.get("kind", before["kind"]) == before["kind"]
        return codec_from_plain({**before, **changes} if same else changes)
    knobs = dict(changes)
    if "by_client" in knobs:  # TOML's keys are text
        knobs["by_client"] = {int(client): levels for client, levels in knobs["by_client"].items()}
    return make_part(kinds, knobs, part)
