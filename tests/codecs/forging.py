"""Frames written by hand, with a right checksum and anything inside."""

import struct

import numpy as np

from adagq.codecs.kernels.lattice import DITHER, ROUND
from adagq.codecs.kernels.tokens import TOKENS
from adagq.codecs.tables import write_table
from adagq.codecs.wire import checksum

QSGD_TAG = 3


def sealed(payload: bytes | bytearray) -> bytes:
    return bytes(payload[:8]) + struct.pack("<Q", checksum(bytes(payload))) + bytes(payload[16:])


def changed(payload: bytes, at: int, value: bytes) -> bytes:
    return sealed(payload[:at] + value + payload[at + len(value) :])


def framed(tag: int, elements: int, sections: list[bytes], knobs: bytes = b"", flags: int = 0) -> bytes:
    """Write a frame as the drawing in `adagq.codecs.wire` has it, by hand."""
    out = struct.pack("<3sBBBHQQQ16s", b"AGQ", 1, tag, flags, len(sections), 0, elements, 5, knobs.ljust(16, b"\0"))
    out += struct.pack(f"<{len(sections)}I", *map(len, sections))
    return sealed(out + b"".join(s + bytes(-len(s) % 4) for s in sections))


def table(frequencies: dict[int, int]) -> bytes:
    row = np.zeros(256, np.uint32)
    row[list(frequencies)] = list(frequencies.values())
    return write_table(row)


def even(bits: int) -> bytes:
    """Every token as often as any other: no branch is foreseen."""
    share = (1 << bits) // TOKENS
    return table(dict.fromkeys(range(1, TOKENS), share) | {0: (1 << bits) - share * (TOKENS - 1)})


def mass_on(token: int, bits: int) -> bytes:
    return table({0: 1, token: (1 << bits) - 1})


def noise(words: int) -> bytes:
    return np.random.default_rng(words).integers(0, 2**16, words).astype(np.uint16).tobytes()


def coded(n: int, model: bytes, words: bytes, bucket: int = 0, sizes: bytes | None = None, dither: int = 0) -> bytes:
    """An entropy-coded QSGD frame at the finest levels, with any model."""
    kind = 1 if sizes is not None else 2 if bucket else 0
    spans = -(-n // bucket) if bucket else len(sizes) // 4 if sizes is not None else 1
    head = [*([] if sizes is None else [sizes]), np.ones(spans, np.float32).tobytes()]
    sections = [*head, model, struct.pack("<I", len(words) // 2), words, b""]
    return framed(QSGD_TAG, n, sections, struct.pack("<IIBBBB", 65535, bucket, kind, 0, dither, 1), flags=1)


def one_class(family: int, frequency_table: bytes, groups: int = 1) -> bytes:
    phases = 8 if family in (DITHER, ROUND) else 64
    lengths = [1] * (groups - 1) + [phases - groups + 1]
    return bytes([1, family, 0, groups, *lengths]) + groups * frequency_table
