"""Unbiased sparsification (Wangni et al. 2018): keep entry j with probability p_j and send u_j / p_j.

    p_j = min(lambda |u_j|, 1),    sum p_j = fraction * d

lambda begins at fraction * d / sum |u| and is rescaled twice over the entries with p_j < 1, as in the paper's greedy
rule. Entries with p_j < 1 all have the magnitude 1 / lambda when they are kept: they travel as a sign, the others as
float32. Frame: knobs are 1 / lambda f32, entries kept u32, large ones among them u32, gaps u32; the flags are the shift
of the gaps. Sections: large values (float32), the gaps of all indices (as in Top-k), one bit a kept entry: large?, one
bit a small one: negative?
"""

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.bits import pack_bits, packed_bytes, unpack_bits
from adagq.codecs.codec import Encoder
from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.spans import LARGEST_SCALE
from adagq.codecs.topk import MAX_SHIFT, decode_gaps, encode_gaps, max_gap_bytes
from adagq.codecs.wire import Frame, frame_size
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, Codec, LayoutLike, Out
from adagq.core.errors import NonFiniteError, PayloadError
from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector

TAG_WANGNI: Final = 10
KNOBS: Final = struct.Struct("<fIII")
RESCALINGS: Final = 2


def add_wangni(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    magnitude, kept, large, gaps = KNOBS.unpack_from(frame.knobs)
    frame.expect_sections(6)
    values = frame.section(0, np.float32)
    if not 0.0 <= magnitude <= LARGEST_SCALE or not large == values.size <= kept <= frame.elements:
        raise PayloadError(f"{values.size} of {large} values, {kept} entries of {frame.elements}, size {magnitude}")
    if frame.flags > MAX_SHIFT or not np.isfinite(values).all():
        raise PayloadError(f"shift = {frame.flags}, at most {MAX_SHIFT} is allowed, or a value is not finite")
    is_large = unpack_bits(frame.sections[4], kept, 1).astype(bool)
    if int(is_large.sum()) != large:
        raise PayloadError(f"{int(is_large.sum())} entries are marked as large, {large} are")
    negative = unpack_bits(frame.sections[5], kept - large, 1).astype(bool)
    if not kept:
        return
    entries = np.empty(kept, np.float32)
    entries[is_large] = values
    entries[~is_large] = np.where(negative, -np.float32(magnitude), np.float32(magnitude))
    out[decode_gaps(frame, frame.flags, gaps, kept)] += np.float32(weight) * entries


def _examples() -> tuple[Codec, ...]:
    return tuple(Wangni(fraction) for fraction in (0.01, 0.1, 1.0))


@register("wangni", tag=TAG_WANGNI, decoder=add_wangni, examples=_examples)
@dataclass(frozen=True, slots=True)
class Wangni(Encoder):
    """Entries drawn with a chance that grows with their size, `fraction` of them on average; unbiased.

    >>> Wangni(0.5).chances(np.array([4.0, 1.0, 1.0, 0.0], np.float32)).tolist()
    [1.0, 0.5, 0.5, 0.0]
    """

    fraction: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise ValueError(f"fraction = {self.fraction}, allowed are numbers above 0 and up to 1")

    @property
    def unbiased(self) -> bool:
        return True

    def chances(self, vector: FloatVector) -> NDArray[np.float64]:
        """Return p_j of every entry."""
        size = np.abs(vector.astype(np.float64))
        return np.minimum(self._slope(size) * size, 1.0)

    def _slope(self, size: NDArray[np.float64]) -> float:
        """Return lambda; 0 if there is nothing to send."""
        total, wanted = float(size.sum()), self.fraction * size.size
        slope = wanted / total if total > 0 else 0.0
        for _ in range(RESCALINGS):
            below = slope * size < 1.0
            rest, left = float(size[below].sum()), wanted - (size.size - int(below.sum()))
            if rest <= 0.0 or left <= slope * rest:
                break
            slope = left / rest
        return slope

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        x = finite_vector(vector)
        size = np.abs(x.astype(np.float64))
        slope = self._slope(size)
        magnitude = np.float32(1.0 / slope) if slope > 0 else np.float32(0.0)
        if not magnitude <= LARGEST_SCALE:
            raise NonFiniteError(f"a magnitude of {magnitude:g} is above {LARGEST_SCALE:g}, too large for float32")
        chance = size * slope
        indices = np.flatnonzero(generator(seed, "wangni").random(x.size) < chance).astype(np.uint32)
        large = chance[indices] >= 1.0
        shift, gaps, coded = encode_gaps(indices) if indices.size else (0, 0, [np.empty(0, np.uint32)] * 3)
        small = x[indices[~large]]
        sections = [x[indices[large]], *coded, pack_bits(large, 1), pack_bits(small < 0, 1)]
        knobs = KNOBS.pack(magnitude, indices.size, int(large.sum()), gaps)
        return filled(TAG_WANGNI, x.size, sections, flags=shift, seed=seed, knobs=knobs, out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        """Return the bits of a payload with as many entries as are kept on average."""
        chance = self.chances(np.asarray(vector, np.float32))
        kept, large = float(chance.sum()), int((chance >= 1.0).sum())
        share = min(max(kept / max(vector.size, 1), 1e-12), 1.0)
        entropy = -share * np.log2(share) - (1 - share) * np.log2(1 - share) if share < 1.0 else 0.0
        bits = 8 * frame_size([0] * 6) + 32 * large + vector.size * entropy + 2 * kept
        return np.full(LEVEL_BITS, float(bits))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        """Return the length if all entries are kept: that a few are is only likely."""
        bits = packed_bytes(elements, 1)
        return frame_size([4 * elements, *max_gap_bytes(elements, elements), bits, bits])
