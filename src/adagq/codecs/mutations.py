"""How `adagq.codecs.fuzzing` damages a payload: accidents, and forgeries whose checksum is right again."""

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from adagq.codecs.kernels.lattice import PHASES, RARE, ROUND
from adagq.codecs.kernels.rans import DENSE_BITS, SPARSE_BITS
from adagq.codecs.kernels.tables import NUMBER_BYTES, pack_table
from adagq.codecs.kernels.tokens import TOKENS
from adagq.codecs.qsgd_frame import ENTROPY_SECTIONS
from adagq.codecs.signs import TAG_SIGNSGD
from adagq.codecs.wire import ALIGNMENT, HEADER, checksum, parse

TOPK_SECTIONS: Final = 4  # of coded Top-k; the table is the second
MAX_ELEMENTS: Final = 4096  # what the fuzzed receiver allows
FIELDS: Final = {"version": (3, 1), "tag": (4, 1), "flags": (5, 1), "sections": (6, 2), "elements": (16, 8)}
EDGES: Final = (
    0,
    1,
    2,
    3,
    5,
    127,
    128,
    255,
    256,
    4095,
    4096,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63,
    2**64 - 1,
)

Rng = random.Random
Mutation = Callable[[bytes, bytes, Rng], bytes]


def _sealed(payload: bytes | bytearray) -> bytes:
    """Return `payload` with the checksum that its bytes deserve."""
    if len(payload) < HEADER.size:
        return bytes(payload)
    return bytes(payload[:8]) + struct.pack("<Q", checksum(bytes(payload))) + bytes(payload[16:])


def _flip(payload: bytes, other: bytes, rng: Rng) -> bytes:
    out = bytearray(payload)
    for _ in range(rng.choice((1, 1, 2, 8))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _set_bytes(payload: bytes, other: bytes, rng: Rng) -> bytes:
    out = bytearray(payload)
    for _ in range(rng.choice((1, 1, 2, 8))):
        out[rng.randrange(len(out))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return bytes(out)


def _truncate(payload: bytes, other: bytes, rng: Rng) -> bytes:
    return payload[: rng.randrange(len(payload))]


def _extend(payload: bytes, other: bytes, rng: Rng) -> bytes:
    return payload + rng.randbytes(rng.choice((1, 4, 16, 100)))


def _splice(payload: bytes, other: bytes, rng: Rng) -> bytes:
    return payload[: rng.randrange(len(payload))] + other[rng.randrange(len(other)) :]


def _forge_flip(payload: bytes, other: bytes, rng: Rng) -> bytes:
    return _sealed(_flip(payload, other, rng))


def _forge_bytes(payload: bytes, other: bytes, rng: Rng) -> bytes:
    return _sealed(_set_bytes(payload, other, rng))


def _forge_header(payload: bytes, other: bytes, rng: Rng) -> bytes:
    out = bytearray(payload)
    at, size = rng.choice(list(FIELDS.values()))
    old = int.from_bytes(out[at : at + size], "little")
    value = rng.choice((*EDGES, old + 1, old - 1, 2 * old, rng.randrange(10), rng.randrange(MAX_ELEMENTS)))
    out[at : at + size] = (value % 256**size).to_bytes(size, "little")
    return _sealed(out)


def _forge_knobs(payload: bytes, other: bytes, rng: Rng) -> bytes:
    out = bytearray(payload)
    size = rng.choice((1, 1, 4))
    at = 32 + size * rng.randrange(16 // size)
    out[at : at + size] = (rng.choice((*EDGES, rng.randrange(2**32))) % 256**size).to_bytes(size, "little")
    return _sealed(out)


def _forge_lengths(payload: bytes, other: bytes, rng: Rng) -> bytes:
    """Move the border between two sections, or write any length."""
    out, count = bytearray(payload), int.from_bytes(payload[6:8], "little")
    a, b = (HEADER.size + 4 * rng.randrange(count) for _ in range(2))
    one, two = (int.from_bytes(out[at : at + 4], "little") for at in (a, b))
    moved = rng.choice((1, 2, 3, ALIGNMENT, 2 * ALIGNMENT, 8 * ALIGNMENT, one))
    if rng.random() < 0.2:
        one, two = rng.choice(EDGES), two + moved
    out[a : a + 4] = ((one - moved) % 2**32).to_bytes(4, "little")
    if a != b:
        out[b : b + 4] = ((two + moved) % 2**32).to_bytes(4, "little")
    return _sealed(out)


def _rebuilt(payload: bytes, change: Callable[[list[bytes]], None]) -> bytes:
    sections = [section.tobytes() for section in parse(payload).sections]
    change(sections)
    return _joined(payload, sections)


def _joined(payload: bytes, sections: list[bytes]) -> bytes:
    """Return the header of `payload` with these sections, sealed."""
    lengths = struct.pack(f"<{len(sections)}I", *map(len, sections))
    padded = (section + bytes(-len(section) % ALIGNMENT) for section in sections)
    return _sealed(payload[: HEADER.size] + lengths + b"".join(padded))


def _forge_section(payload: bytes, other: bytes, rng: Rng) -> bytes:
    """Random bytes for a section, of its own length or any other."""

    def change(sections: list[bytes]) -> None:
        k = rng.randrange(len(sections))
        sections[k] = rng.randbytes(rng.choice((len(sections[k]), rng.randrange(200), 4 * rng.randrange(200))))

    return _rebuilt(payload, change)


def _forge_swap(payload: bytes, other: bytes, rng: Rng) -> bytes:
    """A section of one payload in another."""
    foreign = [section.tobytes() for section in parse(other).sections]

    def change(sections: list[bytes]) -> None:
        sections[rng.randrange(len(sections))] = rng.choice(foreign)

    return _rebuilt(payload, change)


def _forge_numbers(payload: bytes, other: bytes, rng: Rng) -> bytes:
    """Extreme numbers in a section: NaN, infinity, the largest, zero, all bits, as 16- and 32-bit words."""
    words: Sequence[bytes] = [struct.pack("<f", v) for v in (np.nan, np.inf, -np.inf, 3.4e38, 2e38, -1.0, 1e-45, 0.0)]
    words = [*words, b"\xff\x7f", b"\x00\x7c", b"\xff\xff\xff\xff", b"\x00\x00", b"\xff\x7b"]

    def change(sections: list[bytes]) -> None:
        k = rng.randrange(len(sections))
        for _ in range(rng.choice((1, 4, 50))):
            word = rng.choice(words)
            at = len(word) * rng.randrange(max(1, len(sections[k]) // len(word)))
            sections[k] = sections[k][:at] + word + sections[k][at + len(word) :]

    return _rebuilt(payload, change)


def _forge_table(payload: bytes, other: bytes, rng: Rng) -> bytes:
    """A frequency table that costs: mass on one token, all tokens alike, a number without end; with a model or bare."""
    bits = rng.choice((DENSE_BITS, SPARSE_BITS))
    row = np.zeros(TOKENS, np.uint32)
    if rng.random() < 0.5:
        row[rng.randrange(1, TOKENS)] = (1 << bits) - 1
    else:
        row[1:] = (1 << bits) // TOKENS
    row[0] = (1 << bits) - row.sum()
    space = np.empty(NUMBER_BYTES * TOKENS, np.uint8)
    table = space[: pack_table(row, space)].tobytes()
    if rng.random() < 0.2:
        table = b"\x80" * rng.choice((3, 4, 2000)) + table
    family, phases = (RARE, PHASES) if bits == SPARSE_BITS else (ROUND, 8)
    classes = rng.choice((1, 1, 2, 40, 255))
    model = bytes([classes]) + classes * bytes([family, 0, 1, phases])

    def change(sections: list[bytes]) -> None:
        if len(sections) == TOPK_SECTIONS:
            sections[1] = table
        else:
            sections[max(len(sections) - ENTROPY_SECTIONS, 0)] = model + classes * table

    return _rebuilt(payload, change)


def _forge_spans(payload: bytes, other: bytes, rng: Rng) -> bytes:
    """Short spans with a scale for each: buckets, or tensor sizes."""
    elements = min(int.from_bytes(payload[16:24], "little"), MAX_ELEMENTS)
    length, tensors = rng.choice((1, 2, 3, 16, 100)), rng.random() < 0.5
    count = -(-elements // length)
    sizes = np.full(count, length, np.uint32)
    sizes[-1:] = elements - length * (count - 1)
    scales = np.full(count, 0.5, np.float32).tobytes()
    at = 32 if payload[4] == TAG_SIGNSGD else 36  # of the bucket length, the granularity behind it
    heads = 2 if payload[at + 4] == 1 else 1
    out = bytearray(payload)
    out[at : at + 5] = struct.pack("<IB", 0 if tensors else length, 1 if tensors else 2)

    sections = [section.tobytes() for section in parse(payload).sections]
    sections[:heads] = [sizes.tobytes(), scales] if tensors else [scales]
    out[6:8] = struct.pack("<H", len(sections))
    return _joined(bytes(out), sections)


def _forge_length(payload: bytes, other: bytes, rng: Rng) -> bytes:
    """A section far longer than its element count needs."""

    def change(sections: list[bytes]) -> None:
        k = rng.randrange(len(sections))
        sections[k] += bytes(rng.choice((64, 4096, 100_000)))

    return _rebuilt(payload, change)


MUTATIONS: Final[dict[str, Mutation]] = {
    "flipped bits": _flip,
    "set bytes": _set_bytes,
    "truncated": _truncate,
    "extended": _extend,
    "spliced": _splice,
    "forged bits": _forge_flip,
    "forged bytes": _forge_bytes,
    "forged header": _forge_header,
    "forged knobs": _forge_knobs,
    "forged lengths": _forge_lengths,
    "forged section": _forge_section,
    "foreign section": _forge_swap,
    "forged numbers": _forge_numbers,
    "costly table": _forge_table,
    "short spans": _forge_spans,
    "long section": _forge_length,
}
