"""Decode damaged payloads: each is refused with `PayloadError`, or gives finite numbers of the claimed count.

Some mutations are accidents (flipped bits, lost or foreign bytes), which the checksum finds. The others
are forgeries: a header field, a knob, a section or its length is changed and the checksum made right again, so that
the change reaches the decoders. A RuntimeWarning counts as a failure like any other exception.
"""

import random
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Final

import numpy as np

from adagq.codecs.decoding import decode, decode_into
from adagq.codecs.mutations import MAX_ELEMENTS, MUTATIONS
from adagq.codecs.registry import entries
from adagq.core.errors import PayloadError
from adagq.core.seeds import derive, generator
from adagq.core.vectors import FloatVector, Layout, Tensor

SIZES: Final = (0, 1, 7, 300, 2500)
MOST_FAILURES: Final = 20  # kept in the report; more of the same teach nothing


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
    for payload in chain.from_iterable(real.values()):
        _judge(payload, Tally())  # loads every kernel before the clock runs
    rng = random.Random(derive(seed, "fuzz"))
    report = FuzzReport(payloads, seed)
    kinds, mutations = list(real), list(MUTATIONS.items())
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(payloads):
            codec, foreign = rng.choice(kinds), rng.choice(kinds)
            payload, other = rng.choice(real[codec]), rng.choice(real[foreign])
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


def corpus(seed: int) -> dict[str, list[bytes]]:
    """Return payloads of every registered codec with a tag, by its kind: its examples on small vectors."""
    out: dict[str, list[bytes]] = {}
    for entry in entries():
        if entry.tag is None:
            continue
        out[entry.kind] = [
            codec.encode(_vector(size, seed), derive(seed, "encode", entry.kind, k), layout=_layout(size))
            for k, (size, codec) in enumerate(product(SIZES, entry.examples))
        ]
    return out


def _layout(size: int) -> Layout:
    """A vector, a matrix of seven columns and another vector, as far as there are elements."""
    first, rows = size // 3, size // 14
    shapes = ((first,), (rows, 7), (size - first - 7 * rows,))
    return Layout(tuple(Tensor(f"t{k}", shape, "float32", False) for k, shape in enumerate(shapes)))


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


__all__ = ["MAX_ELEMENTS", "MUTATIONS", "FuzzError", "FuzzReport", "Tally", "corpus", "run", "survey"]
