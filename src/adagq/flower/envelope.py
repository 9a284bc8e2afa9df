"""A message's records in one envelope, so that few pieces travel.

Flower sends every record, array and chunk of a message as an object of its own, each with a request to the SuperLink,
one to the SuperNode and one to the app: thirty requests for a message of ours. In an envelope a message has three
objects; only parts above LARGE_BYTES stay arrays, which Flower sends in chunks.

    RecordDict
      adagq.envelope           ConfigRecord   parts: bytes, as in `frames`; empty where the part is large
      adagq.envelope.large     ArrayRecord    the large parts, by their place

What arrives without an envelope is taken as it is.
"""

from typing import Any, Final, cast

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from adagq.flower.frames import records_from_parts, records_to_parts
from adagq.flower.names import STYPE

ENVELOPE: Final = "adagq.envelope"
LARGE: Final = ENVELOPE + ".large"
LARGE_BYTES: Final = 1_000_000


def sealed(records: RecordDict) -> RecordDict:
    """Return the records in an envelope.

    >>> list(sealed(RecordDict({"one": ConfigRecord({"a": 1}), "two": ConfigRecord()})))
    ['adagq.envelope']
    """
    parts = records_to_parts(records)
    large = {str(place): part for place, part in enumerate(parts) if place and len(part) > LARGE_BYTES}
    small = [b"" if str(place) in large else part for place, part in enumerate(parts)]
    envelope = RecordDict({ENVELOPE: ConfigRecord({"parts": small})})
    if large:
        arrays = {key: Array(dtype="uint8", shape=(len(data),), stype=STYPE, data=data) for key, data in large.items()}
        envelope[LARGE] = ArrayRecord(arrays)
    return envelope


def opened(records: RecordDict) -> RecordDict:
    """Return what is in the envelope; an envelope that is none of ours stays closed.

    >>> opened(sealed(RecordDict({"one": ConfigRecord({"a": 1})})))["one"]["a"]
    1
    >>> list(opened(RecordDict({"adagq.envelope": ConfigRecord({"parts": [b"?"]})})))
    ['adagq.envelope']
    """
    envelope, large = records.get(ENVELOPE), records.get(LARGE)
    if not isinstance(envelope, ConfigRecord):
        return records
    try:
        parts: list[Any] = list(cast(list[bytes], envelope["parts"]))
        for key, array in large.items() if isinstance(large, ArrayRecord) else ():
            parts[int(key)] = array.data
        return records_from_parts(parts)
    except Exception:  # whatever odd bytes raise: nobody reads a message in them
        return records
