"""FedDQ (Qu et al. 2022): bits by the range of each tensor, so fewer and fewer as updates get smaller; unbiased.

    bits = max(ceil(log2((max - min) / resolution)), 2), at most 16
    x -> min + step * code,    step = (max - min) / (2^bits - 1),   code rounded up or down by chance

Frame: knobs are the resolution f32; sections: tensor sizes (u32), minima and ranges (float32), bits (u8, one a tensor),
then the codes of all tensors, each tensor's from a new byte on.
"""

import struct
from dataclasses import dataclass
from math import ceil, log2
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import adagq.codecs.spans as spans
from adagq.codecs.bits import pack_bits, packed_bytes, unpack_bits
from adagq.codecs.codec import Encoder, knobs_differ
from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.wire import Frame, Header, frame_size
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, LayoutLike, Out
from adagq.core.errors import NonFiniteError, PayloadError
from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector

TAG_FEDDQ: Final = 13
KNOBS: Final = struct.Struct("<f")
FEWEST_BITS, MOST_BITS = 2, 16


def add_feddq(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    (resolution,) = KNOBS.unpack_from(frame.knobs)
    frame.expect_sections(5)
    sizes = frame.section(0, np.uint32).astype(np.int64)
    lows, ranges = frame.section(1, np.float32), frame.section(2, np.float32)
    bits = frame.sections[3]
    if not resolution > 0.0 or not sizes.size == lows.size == ranges.size == bits.size <= spans.max_spans(sizes.sum()):
        raise PayloadError(f"resolution {resolution}, {sizes.size} tensors, {lows.size} minima, {bits.size} bits")
    if int(sizes.sum()) != frame.elements or (sizes == 0).any():
        raise PayloadError(f"tensor sizes add up to {sizes.sum()}, the header says {frame.elements} elements")
    if bits.size and not (FEWEST_BITS <= int(bits.min()) <= int(bits.max()) <= MOST_BITS):
        raise PayloadError(f"{bits.min()} to {bits.max()} bits, allowed are {FEWEST_BITS} to {MOST_BITS}")
    limit = spans.LARGEST_SCALE / 2
    if not (np.abs(lows) <= limit).all() or not ((ranges >= 0) & (ranges <= 2 * limit)).all():
        raise PayloadError(f"a minimum or a range is not a number up to {limit:g}")
    lengths = np.array([packed_bytes(int(size), int(width)) for size, width in zip(sizes, bits, strict=True)], np.int64)
    codes = frame.sections[4]
    if codes.size != lengths.sum():
        raise PayloadError(f"{codes.size} bytes of codes, {lengths.sum()} are needed")
    at = start = 0
    for size, width, low, span, length in zip(sizes, bits, lows, ranges, lengths, strict=True):
        numbers = unpack_bits(codes[start : start + length], int(size), int(width)).astype(np.float64)
        decoded = float(low) + numbers * (float(span) / (2.0 ** int(width) - 1.0))
        out[at : at + size] += np.float32(weight) * decoded.astype(np.float32)
        at, start = at + size, start + length


@register("feddq", tag=TAG_FEDDQ, decoder=add_feddq, examples=lambda: (FedDQ(), FedDQ(1.0), FedDQ(1e-4)))
@dataclass(frozen=True, slots=True)
class FedDQ(Encoder):
    """Every tensor between its smallest and its largest entry, in steps of at most `resolution` where 16 bits allow.

    >>> [FedDQ(0.005).bits(span) for span in (0.0, 0.01, 0.02, 0.1, 1.0, 1e9)]
    [2, 2, 2, 5, 8, 16]
    """

    resolution: float = 0.005

    def __post_init__(self) -> None:
        if not 1e-30 < self.resolution < 1e30:
            raise ValueError(f"resolution = {self.resolution}, must be a number above 0")

    @property
    def unbiased(self) -> bool:
        return True

    def bits(self, span: float) -> int:
        """Return the bits of a tensor whose entries lie within a range of this length."""
        return min(max(ceil(log2(span / self.resolution)), FEWEST_BITS), MOST_BITS) if span > 0.0 else FEWEST_BITS

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        x = finite_vector(vector)
        sizes = spans.tensor_sizes([x.size] if layout is None else layout, x.size)
        starts = spans.span_starts("tensor", x.size, sizes)[:-1]
        lows = np.minimum.reduceat(x, starts) if x.size else np.zeros(0, np.float32)
        ranges = (np.maximum.reduceat(x, starts) if x.size else lows).astype(np.float64) - lows
        if x.size and not max(2 * float(np.abs(lows).max()), float(ranges.max())) <= spans.LARGEST_SCALE:
            raise NonFiniteError(f"a range is above {spans.LARGEST_SCALE:g}, too large for float32")
        bits = np.array([self.bits(float(span)) for span in ranges], np.uint8)
        draws, packed = generator(seed, "feddq"), [np.zeros(0, np.uint8)]
        for first, size, width, low, span in zip(starts, sizes, bits, lows, ranges.astype(np.float32), strict=True):
            most = 2.0 ** int(width) - 1.0
            places = (x[first : first + size].astype(np.float64) - float(low)) * (most / (float(span) or 1.0))
            codes = np.floor(np.minimum(places, most) + draws.random(size))
            packed.append(pack_bits(np.minimum(codes, most), int(width)))
        sections: list[NDArray[Any]] = [
            sizes.astype(np.uint32), lows, ranges.astype(np.float32), bits, np.concatenate(packed),
        ]  # fmt: skip
        return filled(TAG_FEDDQ, x.size, sections, seed=seed, knobs=KNOBS.pack(self.resolution), out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, 8.0 * len(self.encode(vector, 0, layout)))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        tensors = elements if layout is None else spans.tensor_sizes(layout, elements).size
        tensors = min(tensors, spans.max_spans(elements))
        return frame_size([4 * tensors, 4 * tensors, 4 * tensors, tensors, 2 * elements + tensors])

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        (resolution,) = KNOBS.unpack_from(header.knobs)
        return knobs_differ(("resolution", np.float32(resolution), np.float32(self.resolution)))
