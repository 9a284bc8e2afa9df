"""Malformed messages as Flower records: what `records.read` makes of them on their way to the validator."""

import dataclasses
import random
from typing import Any, Final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from adagq.core.errors import PayloadError
from adagq.core.messages import Report, Update
from adagq.flower.names import STYPE
from adagq.flower.records import ARRAYS, PREFIX, read, write

# What Flower's records can hold; anything else does not leave a node.
ODD: Final[tuple[Any, ...]] = (
    0, -1, 1, 2**62, 0.0, 0.5, 1e308, float("nan"), float("inf"), True, "", "7", "\x1b[31m", b"", b"payload",
    [], [1], [1.0], [True], ["a"], [b"a"], [1] * 100, [0.0] * 16, [float("nan")] * 16,
)  # fmt: skip
HARM_SHARE: Final = 0.5


def carry(message: Any, rng: random.Random) -> Any:
    """Return what arrives of a message that goes through Flower's records; half of the records are damaged."""
    if not isinstance(message, Report | Update):
        raise PayloadError("the message holds nothing of adagq")
    kind: Any = type(message)
    record = RecordDict()
    try:
        write(record, message)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:  # Flower's records take no such value
        raise PayloadError(f"cannot be written ({error})") from None
    if rng.random() < HARM_SHARE:
        _damage(record, PREFIX + kind.__name__.lower(), rng)
    return dataclasses.replace(read(record, kind), client=message.client)


def damage(records: RecordDict, rng: random.Random) -> None:
    """Damage the report or the update among a node's records, if there is one; in half of the cases its payload."""
    names = [name for name in (PREFIX + "report", PREFIX + "update") if isinstance(records.get(name), ConfigRecord)]
    if not names:
        return
    name = names[-1]
    arrays = records.get(name + ARRAYS)
    if isinstance(arrays, ArrayRecord) and "payload" in arrays and rng.random() < HARM_SHARE:
        data = bytearray(arrays["payload"].data)
        if rng.random() < HARM_SHARE:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            data = bytearray(rng.randbytes(len(data)))
        arrays["payload"] = Array(dtype="uint8", shape=(len(data),), stype=STYPE, data=bytes(data))
    else:
        _damage(records, name, rng)


def _damage(record: RecordDict, name: str, rng: random.Random) -> None:
    plain, arrays = record[name], record.get(name + ARRAYS)
    assert isinstance(plain, ConfigRecord)
    key = rng.choice(sorted(plain))
    choice = rng.randrange(8)
    if choice < 3:
        plain[key] = rng.choice(ODD)
    elif choice == 3:
        del plain[key]
    elif choice == 4:
        plain[rng.choice(["unknown", "payload", "buffers", "client-", ""])] = rng.choice(ODD)
    elif choice == 5:
        del record[name]  # Flower warns of a record that is replaced
        record[name] = ArrayRecord() if rng.random() < 0.5 else MetricRecord({"examples": 100})
    elif isinstance(arrays, ArrayRecord) and choice == 6:
        data = rng.randbytes(rng.choice([0, 1, 40, 4000]))
        stype = rng.choice([STYPE, "numpy.ndarray", ""])
        arrays[rng.choice(sorted(arrays))] = Array(dtype="uint8", shape=(len(data),), stype=stype, data=data)
    elif isinstance(arrays, ArrayRecord):
        del record[name + ARRAYS]
        record[name + ARRAYS] = ConfigRecord() if rng.random() < 0.5 else ArrayRecord({"payload": Array(np.ones(3))})
