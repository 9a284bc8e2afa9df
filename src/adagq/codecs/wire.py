"""The frame around every payload.

    offset  bytes  field
    0       3      magic "AGQ"
    3       1      version, now 1
    4       1      codec tag
    5       1      flags, the codec's own
    6       2      number of sections n
    8       8      checksum: XXH3-64 of all bytes but these eight
    16      8      element count of the vector
    24      8      seed of the codec's random numbers
    32      16     knobs, the codec's own
    48      4 n    section lengths
    48+4n   …      sections, each padded with zeros to a multiple of 4 bytes

All numbers are little-endian. `parse` checks everything that can be checked without decoding: after it, and after
the codec's own check of its knobs and section sizes, decoding cannot fail, so a bad payload never leaves a
half-added update behind. The checksum finds accidents; against forgery every field is bounded on its own.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from adagq.errors import PayloadError

MAGIC: Final = b"AGQ"
VERSION: Final = 1
HEADER: Final = struct.Struct("<3sBBBHQQQ16s")
KNOB_BYTES: Final = 16
ALIGNMENT: Final = 4
MAX_SECTIONS: Final = 16
DEFAULT_MAX_ELEMENTS: Final = 2**28  # one gigabyte of float32: a forged header cannot ask for more

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Frame:
    """A parsed payload: header fields and sections as uint8 arrays that share the payload's memory."""

    tag: int
    flags: int
    elements: int
    seed: int
    knobs: bytes
    sections: tuple[NDArray[np.uint8], ...]

    def section(self, index: int, dtype: Any) -> NDArray[Any]:
        """Return a section as an array; its byte length must be a multiple of the dtype's size."""
        raw, kind = self.sections[index], np.dtype(dtype)
        if raw.size % kind.itemsize:
            raise PayloadError(f"section {index} has {raw.size} bytes, not a multiple of {kind.itemsize}")
        return raw.view(kind)

    def expect_sections(self, count: int) -> None:
        if len(self.sections) != count:
            raise PayloadError(f"payload has {len(self.sections)} sections, its codec needs {count}")


def frame_size(section_bytes: Sequence[int]) -> int:
    """Return the payload length for sections of these lengths."""
    return HEADER.size + 4 * len(section_bytes) + sum(_padded(n) for n in section_bytes)


def build(
    tag: int,
    elements: int,
    sections: Sequence[NDArray[Any] | bytes],
    *,
    flags: int = 0,
    seed: int = 0,
    knobs: bytes = b"",
) -> bytes:
    """Return the payload with these sections."""
    views = [
        memoryview(np.ascontiguousarray(s).view(np.uint8).reshape(-1) if isinstance(s, np.ndarray) else s)
        for s in sections
    ]
    lengths = b"".join(struct.pack("<I", v.nbytes) for v in views)
    zero = HEADER.pack(MAGIC, VERSION, tag, flags, len(views), 0, elements, seed, knobs.ljust(KNOB_BYTES, b"\0"))
    body: list[Any] = [lengths]
    for view in views:
        body += [view, bytes(_padded(view.nbytes) - view.nbytes)]
    digest = xxhash.xxh3_64(zero[:8])
    for piece in (zero[16:], *body):
        digest.update(piece)
    return b"".join([zero[:8], struct.pack("<Q", digest.intdigest()), zero[16:], *body])


def checksum(payload: Buffer) -> int:
    """Return the checksum that the header of `payload` should carry."""
    view = memoryview(payload).cast("B")
    digest = xxhash.xxh3_64(view[:8])
    digest.update(view[16:])
    return int(digest.intdigest())


def parse(payload: Buffer, max_elements: int = DEFAULT_MAX_ELEMENTS) -> Frame:
    """Check the frame and return its parts; raise `PayloadError` that says what is wrong."""
    view = memoryview(payload).cast("B")
    if len(view) < HEADER.size:
        raise PayloadError(f"truncated: {len(view)} bytes, the header alone has {HEADER.size}")
    magic, version, tag, flags, count, digest, elements, seed, knobs = HEADER.unpack_from(view)
    if magic != MAGIC:
        raise PayloadError(f"not an adagq payload: it begins with {bytes(magic)!r}, not {MAGIC!r}")
    if version != VERSION:
        raise PayloadError(f"payload version {version}; this release reads version {VERSION}")
    if count > MAX_SECTIONS:
        raise PayloadError(f"{count} sections, at most {MAX_SECTIONS} are allowed")
    start = HEADER.size + 4 * count
    if len(view) < start:
        raise PayloadError(f"truncated: {len(view)} bytes end inside the section table")
    lengths = struct.unpack_from(f"<{count}I", view, HEADER.size)
    expected = start + sum(_padded(n) for n in lengths)
    if expected != len(view):
        what = "truncated" if expected > len(view) else "trailing bytes"
        raise PayloadError(f"{what}: {len(view)} bytes, the section table says {expected}")
    if (actual := checksum(view)) != digest:
        raise PayloadError(f"corrupt: checksum {actual:016x}, the header says {digest:016x}")
    if elements > max_elements:
        raise PayloadError(f"payload holds {elements} elements, at most {max_elements} are allowed")
    raw = np.frombuffer(view, np.uint8)
    if raw.ctypes.data % ALIGNMENT:
        raw = raw.copy()  # a slice of something larger: kernels want aligned words
    sections = []
    for length in lengths:
        sections.append(raw[start : start + length])
        start += _padded(length)
    return Frame(tag, flags, elements, seed, knobs, tuple(sections))


def _padded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
