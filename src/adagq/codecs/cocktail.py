"""CocktailSGD (Wang et al. 2023): a random mask from the seed, the largest of what it leaves, a few bits each; biased.

The mask costs no byte: the receiver draws it again from the payload's seed. Of the entries under it the largest travel
as gaps between their places in the mask and a number of `bits` bits, rounded to the nearest of 2^(bits-1) - 1 steps of
the largest magnitude on either side of 0. With error feedback at both ends what is left out comes later.
Frame: knobs are the mask's share f32, the scale f32, entries kept u32, bits u8, gaps beyond one an entry u24; the flags
are the shift of the gaps. Sections: codes, then the gaps (as in Top-k).
"""

import struct
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.bits import pack_bits, packed_bytes, unpack_bits
from adagq.codecs.codec import Encoder, knobs_differ
from adagq.codecs.inputs import finite_vector, largest_magnitude
from adagq.codecs.registry import register
from adagq.codecs.spans import LARGEST_SCALE
from adagq.codecs.topk import MAX_SHIFT, TopK, decode_gaps, encode_gaps, largest, max_gap_bytes
from adagq.codecs.wire import SEED_MASK, Frame, Header, frame_size
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import Codec, LayoutLike, Out
from adagq.core.errors import NonFiniteError, PayloadError
from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector

TAG_COCKTAIL: Final = 11
KNOBS: Final = struct.Struct("<ffII")  # the last one: bits in its lowest byte, gaps beyond those of the entries above


def places_of(seed: int, mask: float, elements: int) -> NDArray[np.int64]:
    """Return the entries under the mask, in rising order: each with the same chance, on its own."""
    return np.flatnonzero(generator(seed, "cocktail").random(elements, np.float32) < np.float32(mask))


def add_cocktail(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    mask, scale, kept, packed = KNOBS.unpack_from(frame.knobs)
    bits, far = packed & 0xFF, packed >> 8
    frame.expect_sections(4)
    if not 0.0 < mask <= 1.0 or not 0.0 <= scale <= LARGEST_SCALE or not 2 <= bits <= 8 or frame.flags > MAX_SHIFT:
        raise PayloadError(f"mask = {mask}, scale = {scale}, bits = {bits}, shift = {frame.flags}: out of range")
    if kept > frame.elements:
        raise PayloadError(f"{kept} entries for {frame.elements} elements")
    steps = (1 << bits - 1) - 1
    codes = unpack_bits(frame.sections[0], kept, bits)
    if codes.size and int(codes.max()) > 2 * steps:
        raise PayloadError(f"a code of {int(codes.max())}, at most {2 * steps} is allowed")
    if not kept:
        return
    places = places_of(frame.seed, mask, frame.elements)
    within = decode_gaps(replace(frame, elements=places.size), frame.flags, kept + far, kept)
    values = (codes.astype(np.float64) - steps) * (scale / steps)
    out[places[within]] += np.float32(weight) * values.astype(np.float32)


def _examples() -> tuple[Codec, ...]:
    return (Cocktail(), Cocktail(0.5, 0.1, 8), Cocktail(1.0, 1.0, 2))


@register("cocktail", tag=TAG_COCKTAIL, decoder=add_cocktail, examples=_examples)
@dataclass(frozen=True, slots=True)
class Cocktail(Encoder):
    """The largest `fraction` of the entries under a random mask of the share `mask`, at `bits` bits.

    >>> from adagq.codecs import decode
    >>> decode(Cocktail(mask=1.0, fraction=0.5, bits=4).encode(np.array([0.1, -7.0, 3.0, 0.2], np.float32)))
    array([ 0., -7.,  3.,  0.], dtype=float32)
    """

    mask: float = 0.1
    fraction: float = 0.2
    bits: int = 4

    def __post_init__(self) -> None:
        for name in ("mask", "fraction"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} = {getattr(self, name)}, allowed are numbers above 0 and up to 1")
        if not isinstance(self.bits, int) or not 2 <= self.bits <= 8:
            raise ValueError(f"bits = {self.bits!r}, allowed are 2 to 8")

    @property
    def unbiased(self) -> bool:
        return False

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        x = finite_vector(vector)
        places = places_of(seed & SEED_MASK, self.mask, x.size)
        masked = np.ascontiguousarray(x[places])
        within = largest(masked, TopK(self.fraction).kept(masked.size))
        values, scale = masked[within], largest_magnitude(masked)
        if not scale <= LARGEST_SCALE:
            raise NonFiniteError(f"a magnitude is above {LARGEST_SCALE:g}, too large for this codec")
        steps = (1 << self.bits - 1) - 1
        ratio = values.astype(np.float64) / (scale or 1.0)
        codes = np.rint(ratio * steps).astype(np.int64) + steps
        shift, gaps, coded = encode_gaps(within) if within.size else (0, 0, [np.empty(0, np.uint32)] * 3)
        knobs = KNOBS.pack(self.mask, scale, within.size, self.bits | max(gaps - within.size, 0) << 8)
        sections = [pack_bits(codes, self.bits), *coded]
        return filled(TAG_COCKTAIL, x.size, sections, flags=shift, seed=seed, knobs=knobs, out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        masked = np.zeros(ceil(self.mask * vector.size), np.float32)
        code_bits = 8.0 * packed_bytes(TopK(self.fraction).kept(masked.size), self.bits)
        places = TopK(self.fraction, "float16").rate_curve(masked) - 16.0 * TopK(self.fraction).kept(masked.size)
        return np.asarray(np.maximum(places + code_bits, 8.0 * frame_size([0] * 4)))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        """Return the length if the mask lets all entries through: that it does not is only likely."""
        kept = TopK(self.fraction).kept(elements)
        return frame_size([packed_bytes(kept, self.bits), *max_gap_bytes(kept, elements)])

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        mask, _, _, packed = KNOBS.unpack_from(header.knobs)
        return knobs_differ(("mask", np.float32(mask), np.float32(self.mask)), ("bits", packed & 0xFF, self.bits))
