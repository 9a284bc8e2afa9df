"""Decode damaged payloads: each is refused with `PayloadError`, or gives finite numbers of the claimed count.

Half of the mutations are accidents (flipped bits, lost or foreign bytes), which the checksum finds. The other half
are forgeries: a header field, a knob, a section or its length is changed and the checksum made right again, so that
the change reaches the decoders. A RuntimeWarning counts as a failure like any other exception.
"""

import random
import struct
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Literal

import numpy as np

from adagq.codecs.codec import Codec
from adagq.codecs.decoding import ADDERS, decode, decode_into
from adagq.codecs.floats import Float16, Float32
from adagq.codecs.qsgd import QSGD
from adagq.codecs.signs import SignSGD, TernGrad
from adagq.codecs.topk import TopK
from adagq.codecs.wire import ALIGNMENT, HEADER, checksum, parse
from adagq.errors import PayloadError
from adagq.seeds import derive, generator
from adagq.vectors import FloatVector

MAX_ELEMENTS: Final = 4096  # what the fuzzed receiver allows
SIZES: Final = (0, 1, 7, 300, 2500)
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
MOST_FAILURES: Final = 20  # kept in the report; more of the same teach nothing

Rng = random.Random
Mutation = Callable[[bytes, bytes, Rng], bytes]


@dataclass
class Tally:
    accepted: int = 0
    refused: int = 0


@dataclass
class FuzzReport:
    """What came out: tallies by (codec, mutation), and every failure with the payload that caused it."""

    payloads: int
    seed: int
    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    failed: int = 0
    seconds: float = 0.0
    slowest_seconds: float = 0.0

    @property
    def accepted(self) -> int:
        return sum(tally.accepted for tally in self.tallies.values())

    @property
    def refused(self) -> int:
        return sum(tally.refused for tally in self.tallies.values())

    def __str__(self) -> str:
        codecs = sorted({codec for codec, _ in self.tallies})
        lines = [f"{'accepted / refused':22}" + "".join(f"{codec:>16}" for codec in codecs)]
        for mutation in MUTATIONS:
            tallies = [self.tallies.get((codec, mutation), Tally()) for codec in codecs]
            lines.append(f"{mutation:22}" + "".join(f"{f'{t.accepted} / {t.refused}':>16}" for t in tallies))
        rate = self.payloads / max(self.seconds, 1e-9)
        lines.append(
            f"{self.payloads:,} payloads in {self.seconds:.1f} s ({rate:,.0f} a second, slowest "
            f"{1e3 * self.slowest_seconds:.0f} ms): {self.accepted:,} accepted, {self.refused:,} refused, "
            f"{self.failed:,} failed"
        )
        return "\n".join([*lines, *self.failures])


class FuzzError(AssertionError):
    """A damaged payload did something else than to decode to finite numbers or to raise `PayloadError`."""


def run(payloads: int, seed: int = 0, progress: Callable[[str], None] | None = print) -> FuzzReport:
    """Decode that many damaged payloads and return the report, which goes to `progress` too; raise on a failure."""
    report = survey(payloads, seed)
    if progress is not None:
        progress(str(report))
    if report.failed:
        raise FuzzError(f"{report.failed} of {payloads} payloads failed; the first: {report.failures[0]}")
    return report


def survey(payloads: int, seed: int) -> FuzzReport:
    """Decode that many damaged payloads; failures are collected, not raised."""
    real = corpus(seed)
    for _, payload in real:
        _judge(payload, Tally())  # loads every kernel before the clock runs
    rng = random.Random(derive(seed, "fuzz"))
    report = FuzzReport(payloads, seed)
    mutations = list(MUTATIONS.items())
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(payloads):
            (codec, payload), (_, other) = rng.choice(real), rng.choice(real)
            name, mutate = rng.choice(mutations)
            mutant = mutate(payload, other, rng)
            start = time.process_time()  # not the clock: a busy machine is no slow decoder
            tally = report.tallies.setdefault((codec, name), Tally())
            if wrong := _judge(mutant, tally):
                report.failed += 1
                if len(report.failures) < MOST_FAILURES:
                    report.failures.append(f"{codec}, {name}: {wrong}; payload {mutant.hex()}")
            report.slowest_seconds = max(report.slowest_seconds, time.process_time() - start)
    report.seconds = time.perf_counter() - begin
    return report


def corpus(seed: int) -> list[tuple[str, bytes]]:
    """Return (codec, payload) for every codec, form and family, on small vectors."""
    granularities: tuple[Literal["vector", "tensor"] | int, ...] = ("vector", "tensor", 100)
    roundings: tuple[Literal["stochastic", "dither"], ...] = ("stochastic", "dither")
    packings: tuple[Literal["fixed", "entropy"], ...] = ("fixed", "entropy")
    values: tuple[Literal["float32", "float16"], ...] = ("float32", "float16")
    indices: tuple[Literal["plain", "coded"], ...] = ("plain", "coded")
    coarse = [QSGD(s, g, "max", r, p) for s, g, r, p in product((1, 7), granularities, roundings, packings)]
    fine = [QSGD(s, "tensor", "l2", r, p) for s, r, p in product((3, 255, 65535), roundings, packings)]
    topk = [TopK(f, v, i) for f, v, i in product((0.01, 0.4), values, indices)]
    signs: list[Codec] = [TernGrad(), TernGrad("tensor", "fixed"), SignSGD(), SignSGD("tensor"), SignSGD(64)]
    codecs: list[Codec] = [Float32(), Float16(), *coarse, *fine, *topk, *signs]
    out: list[tuple[str, bytes]] = []
    for size, codec in product(SIZES, codecs):
        x = _vector(size, seed)
        sizes = [size // 3, size // 2, size - size // 3 - size // 2]
        payload = codec.encode(x, seed=derive(seed, "encode", len(out)), layout=sizes)
        out.append((ADDERS[parse(payload).tag][0], payload))
    return out


def _vector(size: int, seed: int) -> FloatVector:
    """Heavy tails and magnitudes that fall along the vector, so that all families of classes occur."""
    rng = generator(seed, "fuzz", size)
    x = rng.standard_t(3, size) * 2.0 ** -np.linspace(0, 16, size)
    return x.astype(np.float32)


def _judge(payload: bytes, tally: Tally) -> str:
    """Decode `payload` both ways; return what is wrong, or nothing."""
    claimed = int.from_bytes(payload[16:24], "little")
    vector: FloatVector | None = None
    try:
        vector = decode(payload, MAX_ELEMENTS)
    except PayloadError:
        tally.refused += 1
    except Exception as error:
        return f"decode raised {type(error).__name__}: {error}"
    if vector is not None:
        tally.accepted += 1
        if vector.size != claimed or vector.size > MAX_ELEMENTS:
            return f"decode returned {vector.size} elements, the header says {claimed}"
        if vector.dtype != np.float32 or not np.isfinite(vector).all():
            return "decode returned numbers that are not finite float32"
    before = np.ones(claimed if claimed <= MAX_ELEMENTS else 100, np.float32)
    out = before.copy()
    try:
        decode_into(payload, out, 0.5)
    except PayloadError:
        if vector is not None:
            return "decode_into refused what decode accepted"
        return "" if np.array_equal(out, before) else "decode_into raised and left out changed"
    except Exception as error:
        return f"decode_into raised {type(error).__name__}: {error}"
    if vector is None:
        return "decode_into accepted what decode refused"
    size = float(np.abs(vector).max(initial=0.0))
    if not np.allclose(out, before + np.float32(0.5) * vector, rtol=1e-5, atol=1e-5 * size):
        return "decode_into differs from decode"
    return ""


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

__all__ = ["MAX_ELEMENTS", "MUTATIONS", "FuzzError", "FuzzReport", "Tally", "corpus", "run", "survey"]
