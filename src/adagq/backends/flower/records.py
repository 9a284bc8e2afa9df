"""The wire form: adagq's messages as Flower records, and back.

    RecordDict
      adagq.<message>          ConfigRecord   the plain fields, kebab-case; None is left out
      adagq.<message>.arrays   ArrayRecord    payloads as they are: uint8, stype "adagq.payload"

Payloads are opaque bytes: `Array.numpy()` refuses their stype, so no other strategy averages them by mistake. What
comes from the network is checked here field by field; a record that is not a message raises `PayloadError`.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from adagq import codecs
from adagq.codecs import Codec
from adagq.errors import PayloadError
from adagq.messages import Report, Sync, Task, Update

STYPE: Final = "adagq.payload"
PREFIX: Final = "adagq."
ARRAYS: Final = ".arrays"
CODECS: Final = {name: getattr(codecs, name) for name in ("QSGD", "TopK", "Float32", "Float16", "SignSGD", "TernGrad")}
Plain = dict[str, Any]
MessageT = TypeVar("MessageT", Sync, Report, Task, Update)


def write(record: RecordDict, message: Sync | Report | Task | Update) -> None:
    """Put `message` into `record`, under the name of its class."""
    name = _name(type(message))
    plain: Plain = {}
    arrays: dict[str, bytes] = {}
    for field in dataclasses.fields(message):
        key, value = field.name.replace("_", "-"), getattr(message, field.name)
        if value is None:
            continue
        if field.name == "payloads":
            arrays |= {f"payload-{index}": payload for index, payload in enumerate(value)}
        elif isinstance(value, bytes | memoryview):
            arrays[key] = bytes(value)
        elif field.name in ("codec", "probe_codec"):
            plain[key] = codec_text(value)
        else:
            plain[key] = list(value) if isinstance(value, tuple) else value
    record[name] = ConfigRecord(plain)
    if arrays:
        record[name + ARRAYS] = ArrayRecord({key: _array(data) for key, data in arrays.items()})


def read(record: RecordDict, kind: type[MessageT]) -> MessageT:
    """Return the message of this kind; `PayloadError` if it is not there or not whole."""
    name = _name(kind)
    plain, arrays = record.get(name), record.get(name + ARRAYS)
    if not isinstance(plain, ConfigRecord):
        raise PayloadError(f"the reply holds no {name}")
    data = _bytes(arrays) if isinstance(arrays, ArrayRecord) else {}
    given: Plain = {}
    for field in dataclasses.fields(kind):
        key = field.name.replace("_", "-")
        if field.name == "payloads":
            given["payloads"] = tuple(data[f"payload-{index}"] for index in range(_count(data)))
        elif key in data:
            given[field.name] = data[key]
        elif key in plain:
            given[field.name] = _value(f"{name}.{key}", field, plain[key])
    try:
        return kind(**given)
    except TypeError:
        needed = [field.name for field in dataclasses.fields(kind) if _required(field) and field.name not in given]
        raise PayloadError(f"{name} lacks {', '.join(needed)}") from None


def holds(record: RecordDict, kind: type[Any]) -> bool:
    """Whether there is a message of this kind."""
    return _name(kind) in record


def codec_text(codec: Codec) -> str:
    """Return a codec as JSON.

    >>> codec_text(codecs.TopK(fraction=0.5))
    '{"name": "TopK", "fraction": 0.5, "values": "float32", "indices": "coded"}'
    """
    knobs = {field.name: getattr(codec, field.name) for field in dataclasses.fields(codec)}  # type: ignore[arg-type]
    return json.dumps({"name": type(codec).__name__} | knobs)


def codec_of(text: str) -> Codec:
    """Invert `codec_text`.

    >>> codec_of(codec_text(codecs.QSGD(levels=7))).levels
    7
    """
    try:
        knobs = json.loads(text)
        codec: Codec = CODECS[knobs.pop("name")](**knobs)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PayloadError(f"not a codec: {text[:80]!r} ({error})") from None
    return codec


def _name(kind: type[Any]) -> str:
    return PREFIX + kind.__name__.lower()


def _array(data: bytes) -> Array:
    return Array(dtype="uint8", shape=(len(data),), stype=STYPE, data=data)


def _bytes(arrays: ArrayRecord) -> dict[str, bytes]:
    for key, array in arrays.items():
        if array.stype != STYPE:
            raise PayloadError(f"array {key!r} is of stype {array.stype!r}, not {STYPE!r}")
    return {key: array.data for key, array in arrays.items()}


def _count(data: Mapping[str, bytes]) -> int:
    return next(index for index in range(len(data) + 1) if f"payload-{index}" not in data)


def _required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING


def _value(key: str, field: "dataclasses.Field[Any]", value: Any) -> Any:
    """Return a plain value in the field's own type."""
    if field.name in ("codec", "probe_codec"):
        return codec_of(str(value))
    if isinstance(value, list):
        if any(isinstance(part, str | bytes | bool) for part in value):
            raise PayloadError(f"{key}: a list of numbers is expected")
        return tuple(value)
    kind = str(field.type)
    if "bool" in kind or "float" in kind or "int" in kind:
        if isinstance(value, str | bytes):
            raise PayloadError(f"{key} = {value[:20]!r}: a number is expected")
        if "float" not in kind and "bool" not in kind and not (math.isfinite(value) and int(value) == value):
            raise PayloadError(f"{key} = {value!r}: a whole number is expected")
        return bool(value) if "bool" in kind else float(value) if "float" in kind else int(value)
    raise PayloadError(f"{key}: unexpected")
