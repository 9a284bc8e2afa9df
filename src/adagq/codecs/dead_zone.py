"""Dead zone: the largest entries as sign times a power of two, positions as Golomb-Rice gaps, and not one table.

    Q(v)_j = sign(v_j) scale 2^floor(log2 |v_j| / theta) where |v_j| >= theta, else 0

theta is the magnitude of the ceil(fraction d)-th largest entry; scale is the projection of v on the rest of the
formula, so error feedback has nothing to shrink. Biased, deterministic and contractive: the partner of error feedback
below half a bit a parameter, where an unbiased code is mostly noise. Powers of two lose 3 to 4 % of the energy that is
kept, for about 1.4 bits an entry; the ternary values of `stc` lose half of it where tails are heavy.

Frame: knobs are the number of entries u32, scale f32 and the Rice parameter r u8. One section, a stream of bits:
quotients of the gaps (unary: so many 0 and a 1), their low r bits, a sign bit an entry (1 is minus), exponents (unary).
"""

import struct
from dataclasses import dataclass, replace
from math import ceil, isfinite, log2
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.codec import Encoder
from adagq.codecs.inputs import finite_vector
from adagq.codecs.kernels.integers import add_scattered
from adagq.codecs.registry import register
from adagq.codecs.topk import largest
from adagq.codecs.wire import Frame, frame_size
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, Codec, LayoutLike, Out
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector

TAG_DEAD_ZONE: Final = 16
KNOBS: Final = struct.Struct("<IfB")
MAX_RICE: Final = 32
MAX_EXPONENT: Final = 31  # larger entries count as this one: 2^31 times theta
Bits = NDArray[np.uint8]
Integers = NDArray[np.int64]


def add_dead_zone(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    kept, scale, rice = KNOBS.unpack_from(frame.knobs)
    frame.expect_sections(1)
    if not isfinite(scale) or scale < 0.0 or rice > MAX_RICE or kept > frame.elements:
        raise PayloadError(f"out of range: {kept} entries, scale {scale} or Rice parameter {rice}")
    # An entry has at least a bit each of quotient, sign and exponent: a forged number of entries allocates nothing.
    if 8 * frame.sections[0].size < (3 + rice) * kept:
        raise PayloadError(f"{frame.sections[0].size} bytes for {kept} entries")
    if not kept:
        return
    bits = np.unpackbits(frame.sections[0])
    quotients, at = _read_unary(bits, 0, kept)
    low, at = _read_low(bits, at, kept, rice)
    minus = bits[at : at + kept].view(np.bool_)
    exponents, _ = _read_unary(bits, at + kept, kept)
    if int(quotients.max()) > frame.elements >> rice or int(exponents.max()) > MAX_EXPONENT:
        raise PayloadError("a gap or an exponent is out of range")
    indices = np.cumsum((quotients << rice) + low + 1) - 1
    if int(indices[-1]) >= frame.elements:
        raise PayloadError(f"the gaps lead outside {frame.elements} elements")
    values = np.ldexp(np.where(minus, -scale, scale), exponents).astype(np.float32)
    if not np.isfinite(values).all():
        raise PayloadError("payload holds a number that is not finite")
    add_scattered(indices.astype(np.uint32), values, np.float32(weight), out)


def _examples() -> tuple[Codec, ...]:
    return tuple(DeadZone(fraction) for fraction in (0.0025, 0.02, 0.2, 1.0))


@register("dead-zone", tag=TAG_DEAD_ZONE, decoder=add_dead_zone, examples=_examples)
@dataclass(frozen=True, slots=True)
class DeadZone(Encoder):
    """Keep ceil(fraction * d) entries of largest magnitude, as powers of two of one scale.

    >>> from adagq.codecs import decode
    >>> decode(DeadZone(fraction=0.4).encode(np.array([0.1, -4.0, 0.2, 2.0, 0.0], np.float32)))
    array([ 0., -4.,  0.,  2.,  0.], dtype=float32)
    """

    fraction: float = 0.02

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise ValueError(f"fraction = {self.fraction}, allowed are numbers above 0 and up to 1")

    @property
    def unbiased(self) -> bool:
        return False

    def kept(self, elements: int) -> int:
        return min(elements, ceil(self.fraction * elements))

    def fitted(self, vector: NDArray[Any], budget_bytes: int, layout: LayoutLike = None) -> "DeadZone":
        """Return the codec with about the largest fraction whose payload stays within the budget."""
        x = finite_vector(vector)
        if not x.size:
            return self
        room = 8.0 * (budget_bytes - frame_size([0]))
        kept = min(max(_entries(room, x.size), 1), x.size)
        fits = 1  # or is the least there is
        for _ in range(FITTINGS):
            bits = _coded(x, kept).bits
            if bits <= room:
                fits = max(fits, kept)
                if bits >= CLOSE * room or kept == x.size:
                    break
            # An entry takes more bits the fewer there are.
            kept = min(max(int(kept * CLOSE**0.5 * room / max(bits, 1)), 1), x.size)
        return replace(self, fraction=(fits - 0.5) / x.size)

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        x = finite_vector(vector)
        coded = _coded(x, self.kept(x.size))
        knobs = KNOBS.pack(coded.gaps.size, coded.scale, coded.rice)
        return filled(TAG_DEAD_ZONE, x.size, [coded.stream()], seed=seed, knobs=knobs, out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        x = finite_vector(vector)
        return np.full(LEVEL_BITS, 8.0 * frame_size([-(-_coded(x, self.kept(x.size)).bits // 8)]))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        # Any fraction may have been fitted. Rice's code takes no more than three bits an entry and element together.
        return frame_size([-(-elements * (5 + MAX_EXPONENT) // 8)])


FITTINGS: Final = 6  # encodings that a fit may try
CLOSE: Final = 0.96  # of a budget: near enough to stop looking


@dataclass(frozen=True, slots=True)
class _Coded:
    """The entries that are sent, before they become bits."""

    gaps: Integers
    rice: int
    minus: NDArray[np.bool_]
    exponents: Integers
    scale: float

    @property
    def bits(self) -> int:
        """The length of the stream."""
        unary = int((self.gaps >> self.rice).sum()) + int(self.exponents.sum())
        return unary + (3 + self.rice) * self.gaps.size

    def stream(self) -> bytes:
        parts = [_unary(self.gaps >> self.rice), _low(self.gaps, self.rice), self.minus, _unary(self.exponents)]
        return np.packbits(np.concatenate([part.astype(np.uint8) for part in parts])).tobytes()


def _coded(x: FloatVector, kept: int) -> _Coded:
    indices = largest(x, kept)
    values = x[indices].astype(np.float64)
    indices, values = indices[values != 0.0].astype(np.int64), values[values != 0.0]
    gaps = np.diff(indices, prepend=-1) - 1
    magnitudes = np.abs(values)
    powers = np.frexp(magnitudes / magnitudes.min(initial=np.inf))[1].astype(np.int64) - 1
    exponents = np.minimum(powers, MAX_EXPONENT)
    steps = np.ldexp(1.0, exponents)
    scale = float(magnitudes @ steps / (steps @ steps)) if values.size else 0.0
    return _Coded(gaps, _rice_parameter(gaps), values < 0.0, exponents, float(np.float32(scale)))


def _rice_parameter(gaps: Integers) -> int:
    """Return the parameter that codes these gaps in the fewest bits, give or take a few."""
    if not gaps.size:
        return 0
    start = max(0, int(log2(max(float(gaps.mean()), 1.0) * 0.7)))
    return min(range(max(start - 1, 0), start + 3), key=lambda r: int((gaps >> r).sum()) + r * gaps.size)


def _entries(bits: float, elements: int) -> int:
    """Return how many entries so many bits hold about, were they spread evenly."""
    kept = max(bits / 12.0, 1.0)
    for _ in range(6):
        kept = max(bits / (log2(max(elements / kept, 1.0)) + 4.0), 1.0)
    return int(kept)


def _unary(numbers: Integers) -> Bits:
    bits = np.zeros(int(numbers.sum()) + numbers.size, np.uint8)
    bits[np.cumsum(numbers + 1) - 1] = 1
    return bits


def _low(numbers: Integers, width: int) -> Bits:
    shifts = np.arange(width - 1, -1, -1)
    return ((numbers[:, None] >> shifts) & 1).astype(np.uint8).ravel()


def _read_unary(bits: Bits, at: int, count: int) -> tuple[Integers, int]:
    """Return `count` numbers that begin at bit `at`, and the bit behind them."""
    ones = np.flatnonzero(bits[at:])[:count]
    if ones.size < count:
        raise PayloadError(f"the stream ends after {ones.size} of {count} entries")
    return np.diff(ones, prepend=-1) - 1, at + int(ones[-1]) + 1


def _read_low(bits: Bits, at: int, count: int, width: int) -> tuple[Integers, int]:
    end = at + count * width
    if bits.size < end + count:
        raise PayloadError(f"the stream ends before the signs of {count} entries")
    low = np.zeros(count, np.int64)
    for column in bits[at:end].reshape(count, width).T:
        low = (low << 1) | column
    return low, end
