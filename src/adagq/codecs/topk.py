"""Top-k: the largest entries of the vector, as index and value; biased, the classic partner of error feedback.

Frame: knobs are the form of values (0 float32, 1 float16), the form of indices (0 plain, 1 coded), shift u8, the power
of two by which float16 values were scaled i8, and the number of coded gaps u32. Sections: values, then
  plain   indices (u32): the 32 + 32 bits an entry that the paper counts
  coded   frequency table, words (u16), raw low bits (u32) of the gaps between neighbouring indices
"""

import struct
from dataclasses import dataclass
from itertools import product
from math import ceil, lgamma, log
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.codec import Encoder, knobs_differ
from adagq.codecs.floats import half_exponent
from adagq.codecs.inputs import finite_vector, largest_magnitude
from adagq.codecs.kernels.integers import (
    add_scattered,
    count_tokens,
    decode_integers,
    encode_integers,
    gaps_to_indices,
    rises,
)
from adagq.codecs.kernels.merge import frequencies
from adagq.codecs.kernels.rans import DENSE_BITS, STATES, WORDS_PER_ELEMENT
from adagq.codecs.kernels.select import LOWER_BITS, UPPER_BITS, collect, count_lower, count_upper, find_kth
from adagq.codecs.kernels.tokens import ESCAPE, LIMIT
from adagq.codecs.model import ROW
from adagq.codecs.registry import register
from adagq.codecs.tables import MAX_TABLE_BYTES, encoding_table, read_table, slots_of, write_table
from adagq.codecs.wire import Frame, Header, frame_size
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, Codec, LayoutLike, Out
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector

TAG_TOPK: Final = 4
KNOBS: Final = struct.Struct("<BBBbI")
Values = Literal["float32", "float16"]
Indices = Literal["plain", "coded"]
VALUES: Final[tuple[Values, ...]] = ("float32", "float16")
INDICES: Final[tuple[Indices, ...]] = ("plain", "coded")
FAR: Final = LIMIT - 1  # a gap of this size is followed by the rest of the same gap
MAX_SHIFT: Final = 16
PIECE: Final = 2**16  # entries that are turned into float32 at a time


def add_topk(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    form, coded, shift, exponent, gaps = KNOBS.unpack_from(frame.knobs)
    if form > 1 or coded > 1 or shift > MAX_SHIFT or (exponent and VALUES[form] == "float32"):
        raise PayloadError("knobs out of range: form of values, form of indices, shift or exponent")
    frame.expect_sections(4 if coded else 2)
    values = frame.section(0, VALUES[form])
    if values.size > frame.elements:
        raise PayloadError(f"{values.size} entries for {frame.elements} elements")
    pieces = [(lo, min(lo + PIECE, values.size)) for lo in range(0, values.size, PIECE)]
    if not all(np.isfinite(_floats(values[lo:hi], exponent)).all() for lo, hi in pieces):
        raise PayloadError("Top-k payload holds a number that is not finite")
    indices = decode_gaps(frame, shift, gaps, values.size) if coded else _plain_indices(frame, values.size)
    for lo, hi in pieces:
        add_scattered(indices[lo:hi], _floats(values[lo:hi], exponent), np.float32(weight), out)


def _floats(values: NDArray[Any], exponent: int) -> FloatVector:
    """Return values as float32; forged ones may overflow, which the caller refuses."""
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        scaled: FloatVector = np.ldexp(values.astype(np.float32), -exponent)
    return scaled


def _plain_indices(frame: Frame, kept: int) -> NDArray[np.uint32]:
    indices: NDArray[np.uint32] = frame.section(1, np.uint32)
    if indices.size != kept:
        raise PayloadError(f"{indices.size} indices for {kept} values")
    if not rises(indices, frame.elements):
        raise PayloadError("indices do not rise, or lie outside the vector")
    return indices


def decode_gaps(frame: Frame, shift: int, count: int, kept: int) -> NDArray[np.uint32]:
    """Return the rising indices of a frame whose sections 1 to 3 are what `encode_gaps` made."""
    words, raw = frame.section(2, np.uint16), frame.section(3, np.uint32)
    if count > kept + frame.elements // FAR or count < kept:
        raise PayloadError(f"{count} gaps for {kept} entries of {frame.elements} elements")
    if words.size < 2 * STATES or raw.size != -(-count * shift // 32):
        raise PayloadError(f"{words.size} words and {raw.size} raw words cannot hold {count} gaps")
    if frame.sections[1].size > MAX_TABLE_BYTES:
        raise PayloadError(
            f"a frequency table of {frame.sections[1].size} bytes, at most {MAX_TABLE_BYTES} are allowed"
        )
    freqs = read_table(frame.sections[1].tobytes(), DENSE_BITS)
    gaps = np.empty(count, np.int32)
    decode_integers(words, shift, slots_of(freqs), raw, gaps)
    indices = gaps.view(np.uint32)  # in the same memory: an index never stands behind its gap
    found = gaps_to_indices(gaps, FAR, frame.elements, indices)
    if found != kept:
        raise PayloadError(f"the gaps do not lead to {kept} entries inside {frame.elements} elements")
    return indices[:kept]


def _examples() -> tuple[Codec, ...]:
    return tuple(TopK(*knobs) for knobs in product((0.01, 0.1, 1.0), VALUES, INDICES))


@register("topk", tag=TAG_TOPK, decoder=add_topk, examples=_examples)
@dataclass(frozen=True, slots=True)
class TopK(Encoder):
    """Keep ceil(fraction * d) entries of largest magnitude.

    >>> from adagq.codecs import decode
    >>> decode(TopK(fraction=0.4).encode(np.array([0.1, -3.0, 0.2, 2.0, 0.0], np.float32)))
    array([ 0., -3.,  0.,  2.,  0.], dtype=float32)
    """

    fraction: float = 0.1
    values: Values = "float32"
    indices: Indices = "coded"

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
            shift, gaps, coded = encode_gaps(indices)
        knobs = KNOBS.pack(VALUES.index(self.values), int(gaps > 0), shift, exponent, gaps)
        return filled(TAG_TOPK, x.size, [kept, *coded], seed=seed, knobs=knobs, out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        d, k = vector.size, self.kept(vector.size)
        value_bytes = k * (4 if self.values == "float32" else 2)
        if self.indices == "plain" or not k:
            bits = 8.0 * frame_size([value_bytes, 4 * k])
        else:
            bits = coded_bits(d, k, value_bytes)
        return np.full(LEVEL_BITS, bits)

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        kept = self.kept(elements)
        value_bytes = kept * (4 if self.values == "float32" else 2)
        if self.indices == "plain" or not kept:
            return frame_size([value_bytes, 4 * kept])
        return frame_size([value_bytes, *max_gap_bytes(kept, elements)])

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        form, coded, *_ = KNOBS.unpack_from(header.knobs)
        asked = int(self.indices == "coded" and header.elements > 0)
        return knobs_differ(
            ("values", VALUES[form] if form < 2 else form, self.values),
            ("indices", INDICES[coded] if coded < 2 else coded, INDICES[asked]),
        )


def with_entries(codec: TopK, kept: int, elements: int) -> TopK:
    """Return Top-k with so many entries: ceil(fraction * elements) is `kept` for a fraction half an entry below."""
    return TopK(min((kept - 0.5) / max(elements, 1), 1.0) if elements else codec.fraction, codec.values, codec.indices)


def max_gap_bytes(kept: int, elements: int) -> list[int]:
    """Return the lengths that the sections of `encode_gaps` never pass."""
    gaps = kept + elements // FAR
    return [MAX_TABLE_BYTES, 2 * (WORDS_PER_ELEMENT * gaps + 2 * STATES), 4 * -(-gaps * MAX_SHIFT // 32)]


def coded_bits(elements: int, kept: int, value_bytes: int) -> float:
    """Return the predicted bits of a payload with coded gaps: which of all subsets it is, and what every frame has."""
    subsets = (lgamma(elements + 1) - lgamma(kept + 1) - lgamma(elements - kept + 1)) / log(2)
    return 8.0 * frame_size([value_bytes, 48, 4 * STATES, 0]) + subsets


def largest(x: FloatVector, k: int) -> NDArray[np.uint32]:
    """Return the indices of the k largest |x| in rising order; among equals the first ones win."""
    if k >= x.size:
        return np.arange(x.size, dtype=np.uint32)
    bits = x.view(np.uint32)
    upper = np.zeros((4, 1 << UPPER_BITS), np.int64)
    count_upper(bits, upper)
    bin_, above = find_kth(upper, k)
    lower = np.zeros((1, 1 << LOWER_BITS), np.int64)
    count_lower(bits, np.uint32(bin_), lower)
    low, above_low = find_kth(lower, k - above)
    indices = np.empty(k + 1, np.uint32)
    collect(bits, np.uint32((bin_ << LOWER_BITS) | low), k - above - above_low, indices)
    return indices[:k]


def encode_gaps(indices: NDArray[np.uint32]) -> tuple[int, int, list[Any]]:
    """Return shift, number of gaps, and the sections of at least one rising index."""
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
    at = encode_integers(values, shift, encoding_table(freqs), raw, words)
    return shift, values.size, [write_table(freqs[0]), words[at:], raw]
