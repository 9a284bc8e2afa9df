"""One-bit and ternary codecs: `SignSGD` (biased) and `TernGrad` (unbiased).

SignSGD frame: knobs are bucket u32 and granularity u8; sections: tensor sizes (tensor granularity only), scales
(mean |x| of each span, float32), signs (u32 words, packed as at fixed width 1).
"""

import struct
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from adagq.codecs import spans
from adagq.codecs.codec import LEVEL_BITS, Encoder, LayoutLike
from adagq.codecs.inputs import scan_vector, vector_of
from adagq.codecs.kernels.common import BLOCK
from adagq.codecs.kernels.fixed import add_signs, pack_signs
from adagq.codecs.parallel import even_bounds, run_pieces
from adagq.codecs.qsgd import QSGD, TAG_TERNGRAD
from adagq.codecs.wire import Frame, Out, Writer, frame_size
from adagq.errors import NonFiniteError, PayloadError
from adagq.vectors import FloatVector

TAG_SIGNSGD: Final = 6
KNOBS: Final = struct.Struct("<IB")


@dataclass(frozen=True, slots=True)
class SignSGD(Encoder):
    """The sign of every entry times the mean magnitude of its span: one bit an entry.

    >>> from adagq.codecs import decode
    >>> decode(SignSGD().encode(np.array([3.0, -1.0], np.float32)))
    array([ 2., -2.], dtype=float32)
    """

    granularity: Literal["vector", "tensor"] | int = "vector"

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


@dataclass(frozen=True, slots=True)
class TernGrad(Encoder):
    """-1, 0 or +1 times the largest magnitude of the span, unbiased (Wen et al. 2017): QSGD with one level, max norm.

    >>> from adagq.codecs import decode
    >>> set(decode(TernGrad().encode(np.array([2.0, -1.0, 0.0], np.float32))).tolist()) <= {-2.0, 0.0, 2.0}
    True
    """

    granularity: Literal["vector", "tensor"] | int = "vector"
    packing: Literal["fixed", "entropy"] = "entropy"

    def __post_init__(self) -> None:
        self.qsgd  # checks the knobs  # noqa: B018

    @property
    def qsgd(self) -> QSGD:
        return QSGD(1, self.granularity, "max", "stochastic", self.packing, TAG_TERNGRAD)

    @property
    def unbiased(self) -> bool:
        return True

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        return self.qsgd.write(vector, seed, layout, threads, out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, self.qsgd.predict(vector, layout))
