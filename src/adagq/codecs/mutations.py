"""How `adagq.codecs.fuzzing` damages a payload: accidents, and forgeries whose checksum is right again."""

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from adagq.codecs.wire import ALIGNMENT, HEADER, checksum, parse

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
}
