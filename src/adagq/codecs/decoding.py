"""`decode` and `decode_into`: any payload, nothing else needed.

`max_bytes` is the longest payload that is accepted (`codec.max_bytes` of the codec that was asked for); without it the
element count bounds the payload. `reference` is the last aggregate that both ends hold, for codecs that build on it.
"""

from typing import Final

import numpy as np

from adagq.codecs.registry import Adder, Entry, entry_of_tag, known_tags
from adagq.codecs.wire import DEFAULT_MAX_ELEMENTS, Frame, parse
from adagq.core.codec import Buffer
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector

SHORT: Final = 2**16  # elements; to hand over a shorter vector takes longer than to add it up


def decode(
    payload: Buffer,
    max_elements: int = DEFAULT_MAX_ELEMENTS,
    threads: int = 1,
    *,
    max_bytes: int | None = None,
    reference: FloatVector | None = None,
) -> FloatVector:
    """Return the vector that `payload` holds; never more than `max_elements` numbers are allocated."""
    frame = parse(payload, max_elements, max_bytes, reference)
    entry, add = _decoder(frame)
    if entry.read is not None:
        return entry.read(frame) + np.float32(0)  # as adding to zeros does: no -0
    out = np.zeros(frame.elements, np.float32)
    add(frame, out, 1.0, _worthwhile(threads, out))
    return out


def decode_into(
    payload: Buffer,
    out: FloatVector,
    weight: float = 1.0,
    threads: int = 1,
    *,
    max_bytes: int | None = None,
    reference: FloatVector | None = None,
) -> None:
    """Add `weight` times the vector to `out`, without materialising it; `out` is untouched if the payload is bad."""
    if out.dtype != np.float32 or out.ndim != 1 or not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError("out must be a writeable, contiguous, one-dimensional float32 array")
    frame = parse(payload, out.size, max_bytes, reference)
    if frame.elements != out.size:
        raise PayloadError(f"payload holds {frame.elements} elements, {out.size} are expected")
    _, add = _decoder(frame)
    add(frame, out, weight, _worthwhile(threads, out))


def inspect(payload: Buffer) -> dict[str, object]:
    """Return what the header says: codec, elements, seed and section sizes."""
    frame = parse(payload)
    entry = entry_of_tag(frame.tag)
    return {
        "codec": entry.kind if entry else f"unknown tag {frame.tag}",
        "elements": frame.elements,
        "seed": frame.seed,
        "bytes": len(memoryview(payload).cast("B")),
        "sections": [section.size for section in frame.sections],
    }


def _worthwhile(threads: int, out: FloatVector) -> int:
    return threads if out.size >= SHORT else 1


def _decoder(frame: Frame) -> tuple[Entry, Adder]:
    entry = entry_of_tag(frame.tag)
    if entry is None or entry.add is None:
        raise PayloadError(f"unknown codec tag {frame.tag}; known: {known_tags()}")
    return entry, entry.add
