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
from numbers import Real
from typing import Any, Final, TypeVar

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from adagq.codecs import codec_from_plain, codec_to_plain
from adagq.core.codec import Codec
from adagq.core.errors import AdagqError, PayloadError
from adagq.core.messages import Report, Sync, Task, Update
from adagq.flower.names import STYPE

PREFIX: Final = "adagq."
ARRAYS: Final = ".arrays"
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
        elif field.name == "codec":
            plain[key] = codec_text(value)
        elif field.name == "probe":
            plain[key] = json.dumps([codec_to_plain(codec) for codec in value])
        else:
            plain[key] = list(value) if isinstance(value, tuple) else value
    record[name] = ConfigRecord(plain)
    if arrays:
        record[name + ARRAYS] = ArrayRecord({key: _array(data) for key, data in arrays.items()})


def read(record: RecordDict, kind: type[MessageT]) -> MessageT:
    """Return the message of this kind; `PayloadError` if it is not there, not whole or of other types."""
    name = _name(kind)
    try:
        return _read(record, kind, name)
    except PayloadError:
        raise
    except Exception as error:  # whatever an odd record raises: it is no message
        raise PayloadError(f"{name} is malformed ({type(error).__name__}: {error})") from None


def _read(record: RecordDict, kind: type[MessageT], name: str) -> MessageT:
    plain, arrays = record.get(name), record.get(name + ARRAYS)
    if not isinstance(plain, ConfigRecord):
        raise PayloadError(f"the message holds no {name}")
    data = _bytes(arrays) if isinstance(arrays, ArrayRecord) else {}
    given: Plain = {}
    for field in dataclasses.fields(kind):
        key = field.name.replace("_", "-")
        if field.name == "payloads":
            given["payloads"] = tuple(data[f"payload-{index}"] for index in range(_count(data)))
        elif field.type is bytes:
            if key in data:
                given[field.name] = data[key]
        elif key in plain:
            given[field.name] = _value(f"{name}.{key}", field, plain[key])
    missing = [field.name for field in dataclasses.fields(kind) if _required(field) and field.name not in given]
    if missing:
        raise PayloadError(f"{name} lacks {', '.join(missing)}")
    return kind(**given)


def holds(record: RecordDict, kind: type[Any]) -> bool:
    """Whether there is a message of this kind."""
    return _name(kind) in record


def codec_text(codec: Codec) -> str:
    """Return a codec as JSON.

    >>> from adagq.codecs import TopK
    >>> codec_text(TopK(fraction=0.5))
    '{"kind": "topk", "fraction": 0.5, "values": "float32", "indices": "coded"}'
    """
    return json.dumps(codec_to_plain(codec))


def codec_of(text: str) -> Codec:
    """Invert `codec_text`.

    >>> codec_of('{"kind": "qsgd", "levels": 7}').levels
    7
    """
    try:
        return codec_from_plain(json.loads(text))
    except (ValueError, AdagqError) as error:
        raise PayloadError(f"not a codec: {text[:80]!r} ({error})") from None


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
    if field.name == "codec":
        return codec_of(str(value))
    if field.name == "probe":
        codec, other = json.loads(str(value))
        return codec_from_plain(codec), codec_from_plain(other)
    kind = str(field.type)
    if "tuple" in kind:
        if not isinstance(value, list) or not all(_number(part) for part in value):
            raise PayloadError(f"{key}: a list of numbers is expected")
        return tuple(float(part) for part in value)
    if "bool" in kind:
        if not isinstance(value, bool):
            raise PayloadError(f"{key} = {_shown(value)}: true or false is expected")
        return value
    if not _number(value):
        raise PayloadError(f"{key} = {_shown(value)}: a number is expected")
    if "float" in kind:
        return float(value)
    if not (math.isfinite(value) and int(value) == value):
        raise PayloadError(f"{key} = {_shown(value)}: a whole number is expected")
    return int(value)


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return repr(value)[:40]
