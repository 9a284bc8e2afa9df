"""STC: the largest entries as ternary values, all of one magnitude, their positions coded (Sattler et al. 2019).

    Q(v)_j = mu sign(v_j) where |v_j| is among the ceil(fraction d) largest, else 0;   mu their mean magnitude

Biased and contractive, the partner of error feedback at clients and server: for links on which a third of a bit a
parameter is too much. mu is also the projection of v on the signs, so feedback has nothing to shrink.

Frame: knobs are shift u8, three bytes of zero, and the number of coded gaps u32. Sections: the number of entries u32,
mu f32 and a sign bit an entry (1 is minus), then as Top-k's coded indices: frequency table, words (u16), raw low bits
(u32). Without entries the first section is all there is.
"""

import struct
from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.codec import Encoder
from adagq.codecs.inputs import finite_vector
from adagq.codecs.kernels.integers import add_scattered
from adagq.codecs.registry import register
from adagq.codecs.topk import MAX_SHIFT, coded_bits, decode_gaps, encode_gaps, largest, max_gap_bytes
from adagq.codecs.wire import Frame, frame_size
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, Codec, LayoutLike, Out
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector

TAG_STC: Final = 7
KNOBS: Final = struct.Struct("<BxxxI")
SIGNS: Final = struct.Struct("<If")  # before the sign bits
FILL: Final = 0.97  # of a budget, less SLACK_BYTES: what the prediction may be off by
SLACK_BYTES: Final = 24


def add_stc(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    shift, gaps = KNOBS.unpack_from(frame.knobs)
    if not frame.sections or frame.sections[0].size < SIGNS.size:
        raise PayloadError("payload holds no number of entries")
    kept, magnitude = SIGNS.unpack_from(frame.sections[0].tobytes())
    if shift > MAX_SHIFT or not isfinite(magnitude) or magnitude < 0.0 or kept > frame.elements:
        raise PayloadError(f"out of range: shift {shift}, magnitude {magnitude} or {kept} entries")
    bits = frame.sections[0][SIGNS.size :]
    if bits.size != -(-kept // 8):
        raise PayloadError(f"{bits.size} bytes of signs for {kept} entries")
    frame.expect_sections(4 if kept else 1)
    if kept:
        indices = decode_gaps(frame, shift, gaps, kept)
        minus = np.unpackbits(bits, count=kept).view(np.bool_)
        add_scattered(indices, np.where(minus, -np.float32(magnitude), np.float32(magnitude)), np.float32(weight), out)


def _examples() -> tuple[Codec, ...]:
    return tuple(STC(fraction) for fraction in (0.0025, 0.01, 0.1, 1.0))


@register("stc", tag=TAG_STC, decoder=add_stc, examples=_examples)
@dataclass(frozen=True, slots=True)
class STC(Encoder):
    """Keep ceil(fraction * d) entries of largest magnitude, as plus or minus their mean magnitude.

    >>> from adagq.codecs import decode
    >>> decode(STC(fraction=0.4).encode(np.array([0.1, -3.0, 0.2, 2.0, 0.0], np.float32)))
    array([ 0. , -2.5,  0. ,  2.5,  0. ], dtype=float32)
    """

    fraction: float = 0.0025

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise ValueError(f"fraction = {self.fraction}, allowed are numbers above 0 and up to 1")

    @property
    def unbiased(self) -> bool:
        return False

    def kept(self, elements: int) -> int:
        return min(elements, ceil(self.fraction * elements))

    def fitted(self, vector: NDArray[Any], budget_bytes: int, layout: LayoutLike = None) -> "STC":
        """Return the codec with the largest fraction whose predicted payload stays within the budget."""
        elements = max(int(vector.size), 1)
        low, high = 1, elements + 1  # low fits or is the least there is; high does not fit
        while high - low > 1:
            middle = (low + high) // 2
            fits = self._bits(elements, middle) <= 8.0 * (FILL * budget_bytes - SLACK_BYTES)
            low, high = (middle, high) if fits else (low, middle)
        return replace(self, fraction=(low - 0.5) / elements)

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        x = finite_vector(vector)
        indices = largest(x, self.kept(x.size))
        kept = x[indices]
        magnitude = float(np.abs(kept).mean(dtype=np.float64)) if kept.size else 0.0
        shift, gaps, coded = encode_gaps(indices) if kept.size else (0, 0, [])
        signs = SIGNS.pack(kept.size, magnitude) + np.packbits(np.signbit(kept)).tobytes()
        return filled(TAG_STC, x.size, [signs, *coded], seed=seed, knobs=KNOBS.pack(shift, gaps), out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, self._bits(vector.size, self.kept(vector.size)))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        kept = self.kept(elements)
        return frame_size([_sign_bytes(kept), *max_gap_bytes(kept, elements)] if kept else [SIGNS.size])

    @staticmethod
    def _bits(elements: int, kept: int) -> float:
        return coded_bits(elements, kept, _sign_bytes(kept)) if kept else 8.0 * frame_size([SIGNS.size])


def _sign_bytes(kept: int) -> int:
    return SIGNS.size + -(-kept // 8)
