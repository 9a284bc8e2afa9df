"""Top-k: the largest entries of the vector, as index and value; biased, the classic partner of error feedback.

Frame: knobs are the form of values (0 float32, 1 float16), the form of indices (0 plain, 1 coded), shift u8, the power
of two by which float16 values were scaled i8, and the number of coded gaps u32. Sections: values, then
  plain   indices (u32): the 32 + 32 bits an entry that the paper counts
  coded   frequency table, words (u16), raw low bits (u32) of the gaps between neighbouring indices
"""

import struct
from dataclasses import dataclass
from math import ceil, lgamma, log
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.codec import LEVEL_BITS, Encoder, LayoutLike
from adagq.codecs.entropy import WORDS_PER_ELEMENT
from adagq.codecs.floats import half_exponent
from adagq.codecs.inputs import finite_vector, largest_magnitude
from adagq.codecs.kernels.integers import count_tokens, decode_integers, encode_integers
from adagq.codecs.kernels.merge import frequencies
from adagq.codecs.kernels.rans import DENSE_BITS, STATES
from adagq.codecs.kernels.select import LOWER_BITS, UPPER_BITS, collect, count_lower, count_upper
from adagq.codecs.kernels.tokens import ESCAPE, LIMIT
from adagq.codecs.model import ROW
from adagq.codecs.tables import encoding_table, read_table, slots_of, write_table
from adagq.codecs.wire import Frame, Out, Writer, filled, frame_size
from adagq.errors import PayloadError
from adagq.vectors import FloatVector

TAG_TOPK: Final = 4
KNOBS: Final = struct.Struct("<BBBbI")
VALUES: Final = ("float32", "float16")
INDICES: Final = ("plain", "coded")
FAR: Final = LIMIT - 1  # a gap of this size is followed by the rest of the same gap


@dataclass(frozen=True, slots=True)
class TopK(Encoder):
    """Keep ceil(fraction * d) entries of largest magnitude.

    >>> from adagq.codecs import decode
    >>> decode(TopK(fraction=0.4).encode(np.array([0.1, -3.0, 0.2, 2.0, 0.0], np.float32)))
    array([ 0., -3.,  0.,  2.,  0.], dtype=float32)
    """

    fraction: float = 0.1
    values: Literal["float32", "float16"] = "float32"
    indices: Literal["plain", "coded"] = "coded"

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise ValueError(f"fraction = {self.fraction}, allowed are numbers above 0 and up to 1")
        for name, allowed in (("values", VALUES), ("indices", INDICES)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} = {getattr(self, name)!r}, allowed are {', '.join(allowed)}")

    @property
    def unbiased(self) -> bool:
        return False

    def kept(self, elements: int) -> int:
        return min(elements, ceil(self.fraction * elements))

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        x = finite_vector(vector)
        indices = largest(x, self.kept(x.size))
        kept: NDArray[Any] = x[indices]
        exponent = 0
        if self.values == "float16":
            exponent = half_exponent(largest_magnitude(kept))
            kept = np.ldexp(kept, exponent).astype(np.float16)
        shift, gaps, coded = 0, 0, [indices]
        if self.indices == "coded" and indices.size:
            shift, gaps, coded = _encode_gaps(indices)
        knobs = KNOBS.pack(VALUES.index(self.values), int(gaps > 0), shift, exponent, gaps)
        return filled(TAG_TOPK, x.size, [kept, *coded], seed=seed, knobs=knobs, out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        d, k = vector.size, self.kept(vector.size)
        value_bytes = k * (4 if self.values == "float32" else 2)
        if self.indices == "plain" or not k:
            bits = 8.0 * frame_size([value_bytes, 4 * k])
        else:
            subsets = (lgamma(d + 1) - lgamma(k + 1) - lgamma(d - k + 1)) / log(2)
            bits = 8.0 * frame_size([value_bytes, 48, 4 * STATES, 0]) + subsets
        return np.full(LEVEL_BITS, bits)


def largest(x: FloatVector, k: int) -> NDArray[np.uint32]:
    """Return the indices of the k largest |x| in rising order; among equals the first ones win."""
    if k >= x.size:
        return np.arange(x.size, dtype=np.uint32)
    bits = x.view(np.uint32)
    upper = np.zeros((4, 1 << UPPER_BITS), np.int64)
    count_upper(bits, upper)
    bin_, above = _kth(upper.sum(axis=0), k)
    lower = np.zeros(1 << LOWER_BITS, np.int64)
    count_lower(bits, np.uint32(bin_), lower)
    low, above_low = _kth(lower, k - above)
    indices = np.empty(k + 1, np.uint32)
    collect(bits, np.uint32((bin_ << LOWER_BITS) | low), k - above - above_low, indices)
    return indices[:k]


def _kth(counts: NDArray[np.int64], k: int) -> tuple[int, int]:
    """Return the bin of the k-th largest number, and how many numbers are in the bins above."""
    from_top = np.cumsum(counts[::-1])
    place = int(np.searchsorted(from_top, k))
    return counts.size - 1 - place, int(from_top[place - 1]) if place else 0


def _encode_gaps(indices: NDArray[np.uint32]) -> tuple[int, int, list[Any]]:
    places = indices.astype(np.int64)
    gaps = places - np.concatenate([[-1], places[:-1]]) - 1
    if int(gaps.max()) >= FAR:
        far, rest = np.divmod(gaps, np.int64(FAR))
        ends = np.cumsum(far + 1) - 1
        gaps = np.full(int(ends[-1]) + 1, FAR, np.int64)
        gaps[ends] = rest
    values = gaps.astype(np.int32)
    shift = max(0, int(np.log2(max(values.mean(), 1.0) / 4.0)))
    counts = np.zeros(ROW, np.int64)
    count_tokens(values, shift, counts)
    freqs = np.zeros((1, ROW), np.uint32)
    frequencies(counts.astype(np.float64), DENSE_BITS, ESCAPE, freqs[0])
    raw = np.empty(-(-values.size * shift // 32), np.uint32)
    words = np.empty(WORDS_PER_ELEMENT * values.size + 2 * STATES + 1, np.uint16)
    at = encode_integers(values, shift, *encoding_table(freqs), raw, words)
    return shift, values.size, [write_table(freqs[0]), words[at:], raw]


def add_topk(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    form, coded, shift, exponent, gaps = KNOBS.unpack_from(frame.knobs)
    if form > 1 or coded > 1 or shift > 16:
        raise PayloadError("knobs out of range: form of values, form of indices or shift")
    frame.expect_sections(4 if coded else 2)
    with np.errstate(over="ignore", invalid="ignore"):  # forged numbers are refused below
        values = np.ldexp(frame.section(0, VALUES[form]).astype(np.float32), -exponent)
    if values.size > frame.elements:
        raise PayloadError(f"{values.size} entries for {frame.elements} elements")
    if not np.isfinite(values).all():
        raise PayloadError("Top-k payload holds a number that is not finite")
    if coded:
        indices = _decode_gaps(frame, shift, gaps, values.size)
    else:
        indices = frame.section(1, np.uint32).astype(np.int64)
        if indices.size != values.size:
            raise PayloadError(f"{indices.size} indices for {values.size} values")
        if indices.size and ((np.diff(indices) <= 0).any() or int(indices[-1]) >= frame.elements):
            raise PayloadError("indices do not rise, or lie outside the vector")
    out[indices] += np.float32(weight) * values


def _decode_gaps(frame: Frame, shift: int, count: int, kept: int) -> NDArray[np.int64]:
    words, raw = frame.section(2, np.uint16), frame.section(3, np.uint32)
    if count > kept + frame.elements // FAR or count < kept:
        raise PayloadError(f"{count} gaps for {kept} entries of {frame.elements} elements")
    if words.size < 2 * STATES or raw.size != -(-count * shift // 32):
        raise PayloadError(f"{words.size} words and {raw.size} raw words cannot hold {count} gaps")
    freqs = read_table(frame.sections[1].tobytes(), DENSE_BITS)
    gaps = np.empty(count, np.int32)
    decode_integers(words, shift, slots_of(freqs), raw, gaps)
    ends = gaps != FAR
    if int(ends.sum()) != kept or int(gaps.min(initial=0)) < 0:
        raise PayloadError(f"{int(ends.sum())} gaps lead to an entry, {kept} are needed")
    indices: NDArray[np.int64] = (np.cumsum(gaps.astype(np.int64)) + np.cumsum(ends) - 1)[ends]
    if kept and int(indices[-1]) >= frame.elements:
        raise PayloadError(f"an index is {int(indices[-1])}, the vector has {frame.elements} elements")
    return indices
