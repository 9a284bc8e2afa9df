"""Uncompressed baselines: `Float32` and `Float16`."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.codec import Encoder
from adagq.codecs.inputs import refuse, vector_of
from adagq.codecs.kernels.half import add_half, any_not_finite, to_half
from adagq.codecs.kernels.scan import add_scaled
from adagq.codecs.parallel import even_bounds, run_pieces
from adagq.codecs.registry import register
from adagq.codecs.wire import Frame, frame_size
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, LayoutLike, Out
from adagq.core.errors import NonFiniteError, PayloadError
from adagq.core.vectors import FloatVector

TAG_FLOAT32: Final = 1
TAG_FLOAT16: Final = 2
LARGEST_HALF: Final = 65504.0


def read_float32(frame: Frame) -> FloatVector:
    """Return the numbers of a checked payload, a view on it.

    NumPy alone, here and in `write`: a process that handles one message of plain floats need not load a kernel.
    """
    frame.expect_sections(1)
    data: FloatVector = frame.section(0, np.float32)
    if data.size != frame.elements:
        raise PayloadError(f"float32 section holds {data.size} numbers, the header says {frame.elements}")
    if not np.isfinite(data).all():
        raise PayloadError("float32 payload holds a number that is not finite")
    return data


def add_float32(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    data = read_float32(frame)
    run_pieces(
        lambda lo, hi: add_scaled(data[lo:hi], np.float32(weight), out[lo:hi]),
        even_bounds(out.size, threads),
        threads,
    )


def add_float16(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    frame.expect_sections(1)
    bits = frame.section(0, np.uint16)
    exponent = int.from_bytes(frame.knobs[:2], "little", signed=True)
    if bits.size != frame.elements:
        raise PayloadError(f"float16 section holds {bits.size} numbers, the header says {frame.elements}")
    if not -126 <= exponent <= 126:
        raise PayloadError(f"float16 exponent {exponent}, allowed are -126 to 126")
    if any_not_finite(bits) or (exponent < -111 and bits.size and _overflows(bits, exponent)):
        raise PayloadError("float16 payload holds a number that is not finite")
    factor = np.float32(np.ldexp(1.0, -exponent))
    run_pieces(
        lambda lo, hi: add_half(bits, factor, np.float32(weight), lo, hi, out),
        even_bounds(out.size, threads),
        threads,
    )


def _overflows(bits: NDArray[np.uint16], exponent: int) -> bool:
    largest = float((bits & 0x7FFF).max().view(np.float16))
    return largest * 2.0**-exponent > float(np.finfo(np.float32).max)


@register("float32", tag=TAG_FLOAT32, decoder=add_float32, reader=read_float32, examples=lambda: (Float32(),))
@dataclass(frozen=True, slots=True)
class Float32(Encoder):
    """The vector as it is: 32 bits a number.

    >>> from adagq.codecs import decode
    >>> decode(Float32().encode(np.array([1.5, -2.0], np.float32)))
    array([ 1.5, -2. ], dtype=float32)
    """

    @property
    def unbiased(self) -> bool:
        return True

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        data = vector_of(vector)
        if not np.isfinite(data).all():
            refuse(data)
        return filled(TAG_FLOAT32, data.size, [data], seed=seed, out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, 8.0 * frame_size([4 * vector.size]))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return frame_size([4 * elements])


@register("float16", tag=TAG_FLOAT16, decoder=add_float16, examples=lambda: (Float16(),))
@dataclass(frozen=True, slots=True)
class Float16(Encoder):
    """Rounded to half precision: 16 bits a number, the honest uncompressed baseline.

    Numbers beyond ±65,504 are scaled down, all-tiny ones up, by a power of two that travels in the knobs.

    >>> from adagq.codecs import decode
    >>> decode(Float16().encode(np.array([1.5, -2e30], np.float32)))[1] / -2e30 > 0.999
    np.True_
    """

    @property
    def unbiased(self) -> bool:
        return False

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        data = vector_of(vector)
        writer = Writer(TAG_FLOAT16, data.size, [2 * data.size], seed=seed, out=out)
        bits = writer.section(0, np.uint16)
        largest = _to_half(data, 1.0, bits, threads)
        if not np.isfinite(largest):
            refuse(data)
        if exponent := half_exponent(largest):
            _to_half(data, 2.0**exponent, bits, threads)
            writer.set_knobs(exponent.to_bytes(2, "little", signed=True))
        return writer

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, 8.0 * frame_size([2 * vector.size]))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return frame_size([2 * elements])


def half_exponent(largest: float) -> int:
    """Return the power of two that brings `largest` into float16's range; 0 where it is well inside."""
    if largest > LARGEST_HALF * 2.0**112:  # would be rounded up to infinity
        raise NonFiniteError(f"the vector holds a number of size {largest:g}, too large for float16 of float32's range")
    if largest == 0.0 or 2.0**-6 <= largest <= LARGEST_HALF:
        return 0
    return int(np.clip(14 - np.frexp(largest)[1], -126, 126))


def _to_half(data: FloatVector, factor: float, bits: NDArray[np.uint16], threads: int) -> float:
    """Fill `bits` and return the largest magnitude of data (infinite if a number is not finite)."""
    largests = run_pieces(
        lambda lo, hi: to_half(data, np.float32(factor), lo, hi, bits),
        even_bounds(data.size, threads),
        threads,
    )
    return float(np.uint32(max(largests, default=0)).view(np.float32)) if largests else 0.0
