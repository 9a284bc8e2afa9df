"""`decode` and `decode_into`: any payload, nothing else needed."""

from collections.abc import Callable
from typing import Final

import numpy as np

from adagq.codecs import floats, qsgd, signs, topk
from adagq.codecs.wire import DEFAULT_MAX_ELEMENTS, Buffer, Frame, parse
from adagq.errors import PayloadError
from adagq.vectors import FloatVector

SHORT: Final = 2**16  # elements; to hand over a shorter vector takes longer than to add it up

Adder = Callable[[Frame, FloatVector, float, int], None]

ADDERS: Final[dict[int, tuple[str, Adder]]] = {
    floats.TAG_FLOAT32: ("float32", floats.add_float32),
    floats.TAG_FLOAT16: ("float16", floats.add_float16),
    qsgd.TAG_QSGD: ("qsgd", qsgd.add_qsgd),
    topk.TAG_TOPK: ("topk", topk.add_topk),
    qsgd.TAG_TERNGRAD: ("terngrad", qsgd.add_qsgd),
    signs.TAG_SIGNSGD: ("signsgd", signs.add_signsgd),
}


def decode(payload: Buffer, max_elements: int = DEFAULT_MAX_ELEMENTS, threads: int = 1) -> FloatVector:
    """Return the vector that `payload` holds; never more than `max_elements` numbers are allocated."""
    frame = parse(payload, max_elements)
    if frame.tag == floats.TAG_FLOAT32:
        return floats.read_float32(frame) + np.float32(0)  # as adding to zeros does: no -0
    adder = _adder(frame)
    out = np.zeros(frame.elements, np.float32)
    adder(frame, out, 1.0, _worthwhile(threads, out))
    return out


def decode_into(payload: Buffer, out: FloatVector, weight: float = 1.0, threads: int = 1) -> None:
    """Add `weight` times the vector to `out`, without materialising it; `out` is untouched if the payload is bad."""
    if out.dtype != np.float32 or out.ndim != 1 or not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError("out must be a writeable, contiguous, one-dimensional float32 array")
    frame = parse(payload, out.size)
    if frame.elements != out.size:
        raise PayloadError(f"payload holds {frame.elements} elements, {out.size} are expected")
    _adder(frame)(frame, out, weight, _worthwhile(threads, out))


def inspect(payload: Buffer) -> dict[str, object]:
    """Return what the header says: codec, elements, seed and section sizes."""
    frame = parse(payload)
    return {
        "codec": ADDERS[frame.tag][0] if frame.tag in ADDERS else f"unknown tag {frame.tag}",
        "elements": frame.elements,
        "seed": frame.seed,
        "bytes": len(memoryview(payload).cast("B")),
        "sections": [section.size for section in frame.sections],
    }


def _worthwhile(threads: int, out: FloatVector) -> int:
    return threads if out.size >= SHORT else 1


def _adder(frame: Frame) -> Adder:
    try:
        return ADDERS[frame.tag][1]
    except KeyError:
        known = ", ".join(f"{tag} ({name})" for tag, (name, _) in sorted(ADDERS.items()))
        raise PayloadError(f"unknown codec tag {frame.tag}; known: {known}") from None
