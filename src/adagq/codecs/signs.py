"""One-bit and ternary codecs: `SignSGD` (biased) and `TernGrad` (unbiased).

SignSGD frame: knobs are bucket u32 and granularity u8; sections: tensor sizes (tensor granularity only), scales
(mean |x| of each span, float32), signs (u32 words, packed as at fixed width 1).
"""

import struct
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import adagq.codecs.spans as spans
from adagq.codecs.codec import Encoder
from adagq.codecs.inputs import scan_vector, vector_of
from adagq.codecs.kernels.common import BLOCK
from adagq.codecs.kernels.signs import add_signs, pack_signs
from adagq.codecs.parallel import even_bounds, run_pieces
from adagq.codecs.qsgd import QSGD
from adagq.codecs.qsgd_frame import PACKINGS, TAG_TERNGRAD, Packing, add_qsgd, max_frame_bytes
from adagq.codecs.registry import register
from adagq.codecs.wire import Frame, Header, frame_size
from adagq.codecs.writing import Writer
from adagq.core.codec import LEVEL_BITS, Codec, LayoutLike, Out
from adagq.core.errors import NonFiniteError, PayloadError
from adagq.core.vectors import FloatVector

TAG_SIGNSGD: Final = 6
KNOBS: Final = struct.Struct("<IB")


def add_signsgd(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    bucket, kind = KNOBS.unpack_from(frame.knobs)
    frame.expect_sections(3 if kind == 1 else 2)
    starts, scales = spans.read_scales(frame, kind, bucket)
    words = frame.section(int(kind == 1) + 1, np.uint32)
    if words.size != -(-frame.elements // 32):
        raise PayloadError(f"{words.size} words of signs, {-(-frame.elements // 32)} are needed")
    steps = (scales.astype(np.float64) * weight).astype(np.float32)
    run_pieces(
        lambda lo, hi: add_signs(words, starts, steps, lo, hi, out),
        even_bounds(-(-frame.elements // BLOCK), threads),
        threads,
    )


def _sign_examples() -> tuple[Codec, ...]:
    return tuple(SignSGD(granularity) for granularity in spans.EXAMPLES)


@register("signsgd", tag=TAG_SIGNSGD, decoder=add_signsgd, examples=_sign_examples)
@dataclass(frozen=True, slots=True)
class SignSGD(Encoder):
    """The sign of every entry times the mean magnitude of its span: one bit an entry.

    >>> from adagq.codecs import decode
    >>> decode(SignSGD().encode(np.array([3.0, -1.0], np.float32)))
    array([ 2., -2.], dtype=float32)
    """

    granularity: spans.Granularity = "vector"

    def __post_init__(self) -> None:
        spans.check_granularity(self.granularity)

    @property
    def unbiased(self) -> bool:
        return False

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        x = vector_of(vector)
        sizes = spans.tensor_sizes(layout, x.size) if self.granularity == "tensor" else None
        starts = spans.span_starts(self.granularity, x.size, sizes)
        scan = scan_vector(x, starts, threads)
        sums = np.bincount(scan.chunks.spans, scan.magnitudes, starts.size - 1)
        means = sums / np.maximum(np.diff(starts), 1)
        if means.size and not means.max() <= spans.LARGEST_SCALE:
            raise NonFiniteError(f"a mean magnitude is above {spans.LARGEST_SCALE:g}, too large for float32")
        scales = means.astype(np.float32)
        kind, bucket = spans.pack_granularity(self.granularity)
        head = [*spans.size_section(sizes), scales]
        writer = Writer(
            TAG_SIGNSGD,
            x.size,
            [*(s.nbytes for s in head), 4 * -(-x.size // 32)],
            seed=seed,
            knobs=KNOBS.pack(bucket, kind),
            out=out,
        )
        for index, section in enumerate(head):
            writer.section(index, section.dtype)[:] = section
        bits, words = x.view(np.uint32), writer.section(len(head), np.uint32)
        run_pieces(lambda lo, hi: pack_signs(bits, lo, hi, words), even_bounds(-(-x.size // BLOCK), threads), threads)
        return writer

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        sizes = spans.tensor_sizes(layout, vector.size) if self.granularity == "tensor" else None
        count = spans.span_starts(self.granularity, vector.size, sizes).size - 1
        head = [4 * s.size for s in spans.size_section(sizes)]
        return np.full(LEVEL_BITS, 8.0 * frame_size([*head, 4 * count, 4 * -(-vector.size // 32)]))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return frame_size([*spans.max_head_bytes(self.granularity, elements, layout), 4 * -(-elements // 32)])

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        return granularity_mismatch(KNOBS.unpack_from(header.knobs), self.granularity)


def granularity_mismatch(knobs: tuple[int, int], granularity: spans.Granularity) -> str:
    """Return how (bucket, kind) of a payload differ from the granularity asked for; "" if they do not."""
    bucket, kind = knobs
    asked_kind, asked_bucket = spans.pack_granularity(granularity)
    if (kind, bucket) == (asked_kind, asked_bucket):
        return ""
    asked = spans.granularity_name(asked_kind, asked_bucket)
    return f"granularity {spans.granularity_name(kind, bucket)}, asked for was {asked}"


def _tern_examples() -> tuple[Codec, ...]:
    return tuple(TernGrad(*knobs) for knobs in product(spans.EXAMPLES, PACKINGS))


@register("terngrad", tag=TAG_TERNGRAD, decoder=add_qsgd, examples=_tern_examples)
@dataclass(frozen=True, slots=True)
class TernGrad(Encoder):
    """-1, 0 or +1 times the largest magnitude of the span, unbiased (Wen et al. 2017): QSGD with one level, max norm.

    >>> from adagq.codecs import decode
    >>> set(decode(TernGrad().encode(np.array([2.0, -1.0, 0.0], np.float32))).tolist()) <= {-2.0, 0.0, 2.0}
    True
    """

    granularity: spans.Granularity = "vector"
    packing: Packing = "entropy"

    def __post_init__(self) -> None:
        self.qsgd  # checks the knobs  # noqa: B018

    @property
    def qsgd(self) -> QSGD:
        return QSGD(1, self.granularity, "max", "stochastic", self.packing)

    @property
    def unbiased(self) -> bool:
        return True

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        return self.qsgd.write_as(TAG_TERNGRAD, vector, seed, layout, threads, out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, self.qsgd.predict(vector, layout))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return max_frame_bytes(spans.max_head_bytes(self.granularity, elements, layout), elements, 1)

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        return self.qsgd.knob_mismatch(header, False)
