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
from typing import Any, Final, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from adagq.core.codec import Buffer
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector

MAGIC: Final = b"AGQ"
VERSION: Final = 1
HEADER: Final = struct.Struct("<3sBBBHQQQ16s")
KNOB_BYTES: Final = 16
ALIGNMENT: Final = 4
MAX_SECTIONS: Final = 16
MAX_SECTION_BYTES: Final = 2**32 - 1  # its length is a u32
MAX_ELEMENTS: Final = 2**32 - 1  # an index is a u32
DEFAULT_MAX_ELEMENTS: Final = 2**28  # one gigabyte of float32: a forged header cannot ask for more
BYTES_PER_ELEMENT, FIXED_BYTES = 16, 4096  # no codec of adagq needs more, at its worst knobs

SEED_MASK: Final = 2**64 - 1


class Header(NamedTuple):
    """The first 48 bytes of a payload."""

    magic: bytes
    version: int
    tag: int
    flags: int
    section_count: int
    digest: int
    elements: int
    seed: int
    knobs: bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """A parsed payload: header fields and sections as uint8 arrays that share the payload's memory."""

    tag: int
    flags: int
    elements: int
    seed: int
    knobs: bytes
    sections: tuple[NDArray[np.uint8], ...]
    reference: FloatVector | None = None  # the last aggregate that both ends hold, if the receiver gave it

    def section(self, index: int, dtype: Any) -> NDArray[Any]:
        """Return a section as an array; its byte length must be a multiple of the dtype's size."""
        raw, kind = self.sections[index], np.dtype(dtype)
        if raw.size % kind.itemsize:
            raise PayloadError(f"section {index} has {raw.size} bytes, not a multiple of {kind.itemsize}")
        return raw.view(kind)

    def expect_sections(self, count: int) -> None:
        if len(self.sections) != count:
            raise PayloadError(f"payload has {len(self.sections)} sections, its codec needs {count}")

    def needed_reference(self) -> FloatVector:
        """Return the reference, for codecs that cannot decode without it."""
        if self.reference is None:
            raise PayloadError("this codec needs the last aggregate as reference, and there is none")
        if self.reference.shape != (self.elements,):
            raise PayloadError(f"the reference has shape {self.reference.shape}, the payload {self.elements} elements")
        return self.reference


def frame_size(section_bytes: Sequence[int]) -> int:
    """Return the payload length for sections of these lengths."""
    return HEADER.size + 4 * len(section_bytes) + sum(padded(n) for n in section_bytes)


def checksum(payload: Buffer) -> int:
    """Return the checksum that the header of `payload` should carry."""
    view = memoryview(payload).cast("B")
    digest = xxhash.xxh3_64(view[:8])
    digest.update(view[16:])
    return int(digest.intdigest())


def read_header(payload: Buffer) -> Header:
    """Return the header, checked as far as it can be on its own."""
    view = memoryview(payload).cast("B")
    if len(view) < HEADER.size:
        raise PayloadError(f"truncated: {len(view)} bytes, the header alone has {HEADER.size}")
    header = Header(*HEADER.unpack_from(view))
    if header.magic != MAGIC:
        raise PayloadError(f"not an adagq payload: it begins with {header.magic!r}, not {MAGIC!r}")
    if header.version != VERSION:
        raise PayloadError(f"payload version {header.version}; this release reads version {VERSION}")
    return header


def default_max_bytes(elements: int) -> int:
    """Return the longest payload that is read for this many elements where the receiver names no limit."""
    return BYTES_PER_ELEMENT * elements + FIXED_BYTES


def parse(
    payload: Buffer,
    max_elements: int = DEFAULT_MAX_ELEMENTS,
    max_bytes: int | None = None,
    reference: FloatVector | None = None,
) -> Frame:
    """Check the frame and return its parts; raise `PayloadError` that says what is wrong.

    Sizes first: no byte behind the header is read of a payload that is too long.
    """
    view = memoryview(payload).cast("B")
    if max_bytes is not None and len(view) > max_bytes:
        raise PayloadError(f"payload of {len(view)} bytes, at most {max_bytes} are allowed")
    header = read_header(view)
    elements, count = header.elements, header.section_count
    if elements > max_elements:
        raise PayloadError(f"payload holds {elements} elements, at most {max_elements} are allowed")
    if max_bytes is None and len(view) > (most := default_max_bytes(elements)):
        raise PayloadError(f"payload of {len(view)} bytes for {elements} elements, at most {most} are allowed")
    if count > MAX_SECTIONS:
        raise PayloadError(f"{count} sections, at most {MAX_SECTIONS} are allowed")
    start = HEADER.size + 4 * count
    if len(view) < start:
        raise PayloadError(f"truncated: {len(view)} bytes end inside the section table")
    lengths = struct.unpack_from(f"<{count}I", view, HEADER.size)
    expected = start + sum(padded(n) for n in lengths)
    if expected != len(view):
        what = "truncated" if expected > len(view) else "trailing bytes"
        raise PayloadError(f"{what}: {len(view)} bytes, the section table says {expected}")
    if (actual := checksum(view)) != header.digest:
        raise PayloadError(f"corrupt: checksum {actual:016x}, the header says {header.digest:016x}")
    raw = np.frombuffer(view, np.uint8)
    if raw.ctypes.data % ALIGNMENT:
        raw = raw.copy()  # a slice of something larger: kernels want aligned words
    sections = []
    for length in lengths:
        sections.append(raw[start : start + length])
        start += padded(length)
    return Frame(header.tag, header.flags, elements, header.seed, header.knobs, tuple(sections), reference)


def padded(nbytes: int) -> int:
    """Return the bytes that a section of this length takes."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
