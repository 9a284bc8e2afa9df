"""1-bit SGD (Seide et al. 2014): a bit an entry and two numbers a tensor, the means of both signs; biased.

    q_j = mean of the tensor's non-negative entries where v_j >= 0, mean of its negative ones elsewhere

The partner of error feedback: q is the projection of v on the vectors with two values of that pattern, so feedback
never shrinks it. Frame: knobs are bucket u32 and granularity u8; sections: tensor sizes (tensor granularity only),
means of the non-negative entries, magnitudes of the means of the negative ones (float32, one a span), bits (1: < 0).
"""

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import adagq.codecs.spans as spans
from adagq.codecs.bits import pack_bits, packed_bytes, unpack_bits
from adagq.codecs.codec import Encoder
from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.signs import granularity_mismatch
from adagq.codecs.wire import Frame, Header, frame_size
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, Codec, LayoutLike, Out
from adagq.core.errors import NonFiniteError, PayloadError
from adagq.core.vectors import FloatVector

TAG_ONEBIT: Final = 8
KNOBS: Final = struct.Struct("<IB")


def add_onebit(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    bucket, kind = KNOBS.unpack_from(frame.knobs)
    frame.expect_sections(4 if kind == 1 else 3)
    starts, means = spans.read_scales(frame, kind, bucket)
    first = int(kind == 1)
    negative_means = frame.section(first + 1, np.float32)
    if negative_means.size != means.size or not (negative_means >= 0).all():
        raise PayloadError(f"{negative_means.size} means of negative entries for {means.size} spans, or one is below 0")
    if not (negative_means <= spans.LARGEST_SCALE).all():
        raise PayloadError(f"a mean is not a number from 0 to {spans.LARGEST_SCALE:g}")
    negative = unpack_bits(frame.sections[first + 2], frame.elements, 1).astype(bool)
    span = np.repeat(np.arange(means.size), np.diff(starts))
    out += np.float32(weight) * np.where(negative, -negative_means[span], means[span])


def _examples() -> tuple[Codec, ...]:
    return tuple(OneBit(granularity) for granularity in spans.EXAMPLES)


@register("onebit", tag=TAG_ONEBIT, decoder=add_onebit, examples=_examples)
@dataclass(frozen=True, slots=True)
class OneBit(Encoder):
    """The mean of the entries of its own sign for every entry: one bit.

    >>> from adagq.codecs import decode
    >>> decode(OneBit().encode(np.array([3.0, -1.0, 1.0], np.float32)))
    array([ 2., -1.,  2.], dtype=float32)
    """

    granularity: spans.Granularity = "vector"

    def __post_init__(self) -> None:
        spans.check_granularity(self.granularity)

    @property
    def unbiased(self) -> bool:
        return False

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        x = finite_vector(vector)
        sizes = spans.tensor_sizes(layout, x.size) if self.granularity == "tensor" else None
        starts = spans.span_starts(self.granularity, x.size, sizes)
        span, negative = np.repeat(np.arange(starts.size - 1), np.diff(starts)), x < 0
        means = [_means(x[which], span[which], starts.size - 1) for which in (~negative, negative)]
        kind, bucket = spans.pack_granularity(self.granularity)
        sections: list[NDArray[Any]] = [*spans.size_section(sizes), *means, pack_bits(negative, 1)]
        return filled(TAG_ONEBIT, x.size, sections, seed=seed, knobs=KNOBS.pack(bucket, kind), out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        sizes = spans.tensor_sizes(layout, vector.size) if self.granularity == "tensor" else None
        count = spans.span_starts(self.granularity, vector.size, sizes).size - 1
        head = [4 * section.size for section in spans.size_section(sizes)]
        return np.full(LEVEL_BITS, 8.0 * frame_size([*head, 4 * count, 4 * count, packed_bytes(vector.size, 1)]))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        head = spans.max_head_bytes(self.granularity, elements, layout)
        return frame_size([*head, head[-1], packed_bytes(elements, 1)])

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        return granularity_mismatch(KNOBS.unpack_from(header.knobs), self.granularity)


def _means(x: FloatVector, span: NDArray[np.int64], spans_count: int) -> NDArray[np.float32]:
    """Return the mean magnitude of each span's entries; 0 for one that has none."""
    sums = np.bincount(span, np.abs(x.astype(np.float64)), spans_count)
    means = sums / np.maximum(np.bincount(span, minlength=spans_count), 1)
    if means.size and not means.max() <= spans.LARGEST_SCALE:
        raise NonFiniteError(f"a mean magnitude is above {spans.LARGEST_SCALE:g}, too large for float32")
    return means.astype(np.float32)
