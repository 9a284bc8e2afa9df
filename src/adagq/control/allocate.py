"""Whole bits for every client so that all finish together (the paper's equation for b_j,k+1).

    t_cp_i + bits_i(b_i) * seconds_per_bit_i <= tau        for every i, with b_i as large as that allows
    mean_i (2^{b_i} - 1)                                   as near to the target as whole bits allow

Both sides only grow with tau, and the left one only changes at the n * (b_max - b_min) *breakpoints*
`t_cp_i + bits_i(b) * seconds_per_bit_i`: the moment from which client i can afford b bits. So tau is one of
the breakpoints: sort them, add up the levels that each one brings, take the sum nearest to the target. Of
many breakpoints only those between two neighbours of a sample are sorted; the result is the same.
"""

import math
from bisect import bisect_right

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adagq.core.codec import LEVEL_BITS

FloatArray = NDArray[np.float64]

# A sample of this size leaves 15,000 of a million clients' breakpoints to sort, after ten passes over all.
_SAMPLE = 1 << 10
_BLOCK = 1 << 12  # clients whose curves are turned from rows to columns while they are in the cache


def bits_of(levels: float) -> int:
    """Return b = floor(log2 s) + 1, the magnitude bits of `levels`.

    >>> [bits_of(s) for s in (1, 2, 3, 127.5, 255, 256)]
    [1, 2, 2, 7, 8, 9]
    """
    return math.frexp(levels)[1]  # s = m * 2^e with m in [0.5, 1): e is b, with no rounding in a logarithm


def levels_of(bits: int) -> int:
    """Return s = 2^b - 1.

    >>> levels_of(8)
    255
    """
    return (1 << bits) - 1


def allocate(
    compute_seconds: ArrayLike,
    seconds_per_bit: ArrayLike,
    rate_bits: ArrayLike | None,
    mean_levels: float,
    b_min: int = 1,
    b_max: int = LEVEL_BITS,
    elements: float = 1.0,
) -> NDArray[np.int64]:
    """Return the bits b_i of every client.

    `rate_bits[i, b - 1]` are the payload bits of client i at b level bits; None stands for the paper's
    `b * elements`. NaN, or a negative number, means no history: such a client gets the median of the others'.

    Two clients compute for 10 s; one bit takes the slow one 2 s and the fast one 1 s. At tau = 16 s the slow
    one affords 3 bits and the fast one 6: mean levels (7 + 63) / 2 = 35.

    >>> allocate([10.0, 10.0], [2.0, 1.0], None, mean_levels=35).tolist()
    [3, 6]
    """
    compute = _filled(np.asarray(compute_seconds, np.float64), unknown=0.0)
    pace = _filled(np.asarray(seconds_per_bit, np.float64), unknown=1.0)
    if compute.size == 0:
        return np.zeros(0, np.int64)
    if rate_bits is None:
        breakpoints = compute + np.multiply.outer(np.arange(b_min + 1, b_max + 1) * elements, pace)
    else:
        breakpoints = _curve_breakpoints(compute, pace, fill_rates(rate_bits)[:, b_min:b_max])
    tau = _finish_time(breakpoints, mean_levels * compute.size, b_min)
    bits = np.full(compute.size, b_min, np.int64)
    for row in breakpoints:
        bits += row <= tau
    return bits


def fill_rates(rate_bits: ArrayLike) -> FloatArray:
    """Return the curves, with the median curve for who has none; b itself if nobody has one."""
    rates = np.asarray(rate_bits, np.float64)
    positive = rates > 0.0
    if positive.all():
        return rates
    known = np.flatnonzero(np.all(positive, axis=1))
    filled = np.empty_like(rates)
    filled[:] = np.median(rates[known], axis=0) if known.size else np.arange(1.0, LEVEL_BITS + 1)
    filled[known] = rates[known]
    return filled


def _curve_breakpoints(compute: FloatArray, pace: FloatArray, rates: FloatArray) -> FloatArray:
    rows = np.empty((rates.shape[1], compute.size))
    for start in range(0, compute.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        # A measured curve may dip; whoever affords b bits is to afford b - 1 as well.
        rising = np.maximum.accumulate(rates[block].T, axis=0)
        rows[:, block] = compute[block] + pace[block] * rising
    return rows


def _filled(values: FloatArray, unknown: float) -> FloatArray:
    known = values >= 0.0
    if known.all():
        return values
    return np.where(known, values, np.median(values[known]) if known.any() else unknown)


def _finish_time(breakpoints: FloatArray, goal: float, b_min: int) -> float:
    """Return the tau whose sum of levels is nearest to `goal`; of two equally near, the earlier.

    Row j holds the moments from which clients afford b = b_min + 1 + j bits: 2^(b - 1) more levels each.
    """
    clients: int = breakpoints.shape[1]
    gains = [1 << (b_min + j) for j in range(len(breakpoints))]

    def levels_sum(tau: float) -> int:
        total = clients * levels_of(b_min)
        for row, gain in zip(breakpoints, gains, strict=True):
            total += int(np.count_nonzero(row <= tau)) * gain
        return total

    low, high = -math.inf, math.inf
    if breakpoints.size > 16 * _SAMPLE:
        stride = breakpoints.size // _SAMPLE | 1  # odd: no resonance with fleets that alternate
        sample: list[float] = np.sort(breakpoints[:, ::stride], axis=None).tolist()
        above = bisect_right(sample, goal, key=levels_sum)
        low = sample[above - 1] if above > 0 else low
        high = sample[above] if above < len(sample) else high

    inside = [row[(row > low) & (row <= high) & (row < math.inf)] for row in breakpoints]
    moments = np.concatenate(inside)
    order = np.argsort(moments)
    moments = moments[order]
    sums = levels_sum(low) + np.cumsum(np.repeat(gains, [row.size for row in inside])[order])
    whole = np.append(moments[1:] > moments[:-1], True)[: moments.size]  # equal moments come together
    taus = np.append(low, moments[whole])
    distances = np.abs(np.append(levels_sum(low), sums[whole]) - goal)
    return float(taus[np.argmin(distances)])
