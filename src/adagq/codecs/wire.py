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

import ctypes
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

SEED_MASK: Final = 2**64 - 1

Buffer = bytes | bytearray | memoryview
Out = bytearray | memoryview


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


class Writer:
    """A payload under construction: sections are filled in place, so that no large array is copied or paged in twice.

    With `out` (any writeable buffer) the payload is built at its beginning.
    """

    def __init__(
        self,
        tag: int,
        elements: int,
        section_bytes: Sequence[int],
        *,
        flags: int = 0,
        seed: int = 0,
        knobs: bytes = b"",
        out: Out | None = None,
    ) -> None:
        total = frame_size(section_bytes)
        self._payload: Any
        if out is None:
            self._payload, self._bytes = _new_bytes(total)
        else:
            view = memoryview(out).cast("B")
            if view.readonly or len(view) < total:
                raise ValueError(f"out holds {len(view)} bytes, the payload needs {total}, and it must be writeable")
            self._payload = view[:total]
            self._bytes = np.frombuffer(self._payload, np.uint8)
        header = HEADER.pack(
            MAGIC,
            VERSION,
            tag,
            flags,
            len(section_bytes),
            0,
            elements,
            seed & SEED_MASK,
            knobs.ljust(KNOB_BYTES, b"\0"),
        )
        lengths = struct.pack(f"<{len(section_bytes)}I", *section_bytes)
        start = len(header) + len(lengths)
        self._bytes[:start] = np.frombuffer(header + lengths, np.uint8)
        self._sections = []
        for nbytes in section_bytes:
            self._sections.append(self._bytes[start : start + nbytes])
            self._bytes[start + nbytes : start + _padded(nbytes)] = 0
            start += _padded(nbytes)

    def section(self, index: int, dtype: Any) -> NDArray[Any]:
        """Return a section as an array to fill."""
        return self._sections[index].view(dtype)

    def set_knobs(self, knobs: bytes) -> None:
        """Set the knobs once they are known."""
        self._bytes[HEADER.size - KNOB_BYTES : HEADER.size] = np.frombuffer(knobs.ljust(KNOB_BYTES, b"\0"), np.uint8)

    def finish(self) -> bytes:
        """Write the checksum and return the payload (a view of it where it was built in `out`)."""
        self._bytes[8:16] = np.frombuffer(struct.pack("<Q", checksum(self._bytes.data)), np.uint8)
        payload: bytes = self._payload
        return payload


def filled(
    tag: int,
    elements: int,
    sections: Sequence[NDArray[Any] | bytes],
    *,
    flags: int = 0,
    seed: int = 0,
    knobs: bytes = b"",
    out: Out | None = None,
) -> Writer:
    """Return a writer whose sections are copies of these."""
    arrays = [np.frombuffer(s, np.uint8) if isinstance(s, bytes) else s for s in sections]
    writer = Writer(tag, elements, [a.nbytes for a in arrays], flags=flags, seed=seed, knobs=knobs, out=out)
    for index, array in enumerate(arrays):
        writer.section(index, array.dtype)[:] = array
    return writer


def _new_bytes(size: int) -> tuple[bytes, NDArray[np.uint8]]:
    """Return a new bytes object and its memory, to be filled before anyone else sees it (as C extensions do)."""
    api = ctypes.pythonapi
    make, address = api.PyBytes_FromStringAndSize, api.PyBytes_AsString
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_ssize_t)
    address.restype, address.argtypes = ctypes.c_void_p, (ctypes.py_object,)
    payload: bytes = make(None, size)
    memory = (ctypes.c_uint8 * size).from_address(address(payload))
    return payload, np.frombuffer(memory, np.uint8)


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
