"""The k largest magnitudes: a histogram of the upper bits, one of the lower bits, then one pass that collects."""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import kernel

UPPER_BITS = 15  # exponent and seven bits of mantissa
LOWER_BITS = 16


@kernel
def count_upper(bits: Any, counts: Any) -> None:
    """counts[lane, upper bits of |x|]; neighbours count in different lanes, so that neither waits for the other."""
    n = bits.size & ~3
    for i in range(0, n, 4):
        counts[0, (bits[i] >> np.uint32(16)) & np.uint32(0x7FFF)] += 1
        counts[1, (bits[i + 1] >> np.uint32(16)) & np.uint32(0x7FFF)] += 1
        counts[2, (bits[i + 2] >> np.uint32(16)) & np.uint32(0x7FFF)] += 1
        counts[3, (bits[i + 3] >> np.uint32(16)) & np.uint32(0x7FFF)] += 1
    for i in range(n, bits.size):
        counts[0, (bits[i] >> np.uint32(16)) & np.uint32(0x7FFF)] += 1


@kernel
def count_lower(bits: Any, upper: Any, counts: Any) -> None:
    """counts[0, lower bits] of the numbers whose upper bits are `upper`."""
    for i in range(bits.size):
        if np.uint32(bits[i] >> np.uint32(16)) & np.uint32(0x7FFF) == upper:
            counts[0, bits[i] & np.uint32(0xFFFF)] += 1


@kernel
def find_kth(counts: Any, k: int) -> Any:
    """Return the bin of the k-th largest number of counts[lane, bin], and how many numbers are in the bins above."""
    above = 0
    for place in range(counts.shape[1] - 1, -1, -1):
        here = 0
        for lane in range(counts.shape[0]):
            here += counts[lane, place]
        if above + here >= k:
            return place, above
        above += here
    return 0, above


@kernel
def collect(bits: Any, threshold: Any, ties: int, indices: Any) -> int:
    """Indices of all |x| above the threshold (as bits) and of the first `ties` equal to it; `indices` has a spare."""
    k = 0
    for i in range(bits.size):
        low = np.uint32(bits[i] & np.uint32(0x7FFFFFFF))
        indices[k] = np.uint32(i)
        equal = low == threshold
        take = low > threshold or (equal and ties > 0)
        ties -= int(equal)
        k += int(take)
    return k
