"""Writing a frame (drawn in `adagq.codecs.wire`): sections are filled in place."""

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.wire import (
    HEADER,
    KNOB_BYTES,
    MAGIC,
    MAX_ELEMENTS,
    MAX_SECTION_BYTES,
    SEED_MASK,
    VERSION,
    checksum,
    frame_size,
    padded,
)
from adagq.core.codec import Out
from adagq.core.errors import LayoutError


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
        if elements > MAX_ELEMENTS:
            raise LayoutError(f"{elements} elements, at most {MAX_ELEMENTS} fit into a payload")
        if max(section_bytes, default=0) > MAX_SECTION_BYTES:
            raise LayoutError(
                f"a section of {max(section_bytes)} bytes for {elements} elements, at most {MAX_SECTION_BYTES} fit"
            )
        total = frame_size(section_bytes)
        self._payload: Any
        if out is None:
            self._payload, self._bytes = _new_bytes(total)
        else:
            self._payload = _room(out, total)
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
            self._bytes[start + nbytes : start + padded(nbytes)] = 0
            start += padded(nbytes)

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


def copy_into(payload: bytes, out: Out) -> int:
    """Write a finished payload to the beginning of `out` and return its length."""
    _room(out, len(payload))[:] = payload
    return len(payload)


def _room(out: Out, nbytes: int) -> memoryview:
    view = memoryview(out).cast("B")
    if view.readonly or len(view) < nbytes:
        raise ValueError(f"out holds {len(view)} bytes, the payload needs {nbytes}, and it must be writeable")
    return view[:nbytes]


def _new_bytes(size: int) -> tuple[bytes, NDArray[np.uint8]]:
    """Return a new bytes object and its memory, to be filled before anyone else sees it (as C extensions do)."""
    api = ctypes.pythonapi
    make, address = api.PyBytes_FromStringAndSize, api.PyBytes_AsString
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_ssize_t)
    address.restype, address.argtypes = ctypes.c_void_p, (ctypes.py_object,)
    payload: bytes = make(None, size)
    memory = (ctypes.c_uint8 * size).from_address(address(payload))
    return payload, np.frombuffer(memory, np.uint8)
