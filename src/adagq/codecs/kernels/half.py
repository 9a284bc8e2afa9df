"""float32 <-> float16 bits in integer arithmetic: NumPy's conversion is 7x a memcpy, this vectorises."""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import BLOCK, kernel, leaf
from adagq.codecs.kernels.scan import largest_bits

SMALLEST_NORMAL = np.float32(2.0**-14)
SUBNORMAL_UNITS = np.float32(2.0**24)
REBASE = np.float32(2.0**112)  # from float16's exponent bias to float32's
REBIAS = np.uint32(0xC8000FFF)  # (15 - 127) << 23, plus just under half a unit of the last place that stays


@leaf
def _round_half(x: Any, bits: Any, out: Any) -> None:
    for j in range(x.size):
        size = np.float32(abs(x[j]))
        low = np.uint32(bits[j] & np.uint32(0x7FFFFFFF))
        even = np.uint32(np.uint32(low >> np.uint32(13)) & np.uint32(1))
        normal = np.uint32(np.uint32(low + np.uint32(even + REBIAS)) >> np.uint32(13))
        small = np.uint32(np.int32(np.rint(np.float32(min(size, SMALLEST_NORMAL) * SUBNORMAL_UNITS))))
        sign = np.uint32(np.uint32(bits[j] >> np.uint32(16)) & np.uint32(0x8000))
        out[j] = np.uint16(np.uint32(sign | (normal if size >= SMALLEST_NORMAL else small)))


@leaf
def _scaled(x: Any, factor: Any, out: Any) -> None:
    for j in range(x.size):
        out[j] = np.float32(x[j] * factor)


@kernel
def to_half(x: Any, factor: Any, lo: int, hi: int, out: Any) -> Any:
    """out = float16 bits of x * factor for elements lo..hi; return the bits of the largest |x * factor|."""
    scratch = np.empty(BLOCK, np.float32)
    bits = scratch.view(np.uint32)
    largest = np.uint32(0)
    for at in range(lo, hi, BLOCK):
        end = min(at + BLOCK, hi)
        _scaled(x[at:end], factor, scratch)
        largest = max(largest, largest_bits(bits[: end - at]))
        _round_half(scratch[: end - at], bits, out[at:end])
    return largest


@leaf
def _widen(half: Any, bits: Any) -> None:
    for j in range(half.size):
        h = np.uint32(half[j])
        bits[j] = np.uint32(
            np.uint32(np.uint32(h & np.uint32(0x7FFF)) << np.uint32(13))
            | np.uint32(np.uint32(h & np.uint32(0x8000)) << np.uint32(16))
        )


@leaf
def _add_scaled(values: Any, factor: Any, weight: Any, out: Any) -> None:
    for j in range(out.size):
        out[j] = np.float32(out[j] + np.float32(np.float32(np.float32(values[j] * REBASE) * factor) * weight))


@kernel
def add_half(half: Any, factor: Any, weight: Any, lo: int, hi: int, out: Any) -> None:
    """out += weight * factor * float16 value for elements lo..hi; a multiplication rebiases the exponent."""
    scratch = np.empty(BLOCK, np.float32)
    bits = scratch.view(np.uint32)
    for at in range(lo, hi, BLOCK):
        end = min(at + BLOCK, hi)
        _widen(half[at:end], bits)
        _add_scaled(scratch, factor, weight, out[at:end])


@leaf
def any_not_finite(half: Any) -> bool:
    largest = np.uint16(0)
    for j in range(half.size):
        low = np.uint16(half[j] & np.uint16(0x7FFF))
        largest = low if low > largest else largest
    return bool(largest >= np.uint16(0x7C00))
