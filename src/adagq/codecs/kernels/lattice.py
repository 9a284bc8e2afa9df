"""Quantize a chunk onto its lattice and back, with the phase that the entropy coder conditions on.

Encoder and decoder know the same uniform number u (24 bits of hash) of every element. The rounding of an element
depends on it, so its symbol is coded *given* u: the phase is u, folded and binned.

    DITHER    q = floor(a + u), value (q - u + 1/2) step; uniform phases of |u - 1/2|, symbol mirrored with its sign
    ROUND     q = sign(a) floor(|a| + u), value q step; uniform phases of 1 - u
    SPARSE    the same for |a| << 1, where only a large u leads to a symbol; phases on a log scale of 1 - u
    RARE      SPARSE again, so rare that tables have 2^15 slots and are searched, zero first, instead of looked up
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.kernels.common import hash32, inline, leaf

DITHER, ROUND, SPARSE, RARE = 0, 1, 2, 3
PHASES = 64  # fine phases at most; the model merges neighbours into groups
GROUPS = 8
UNIT = np.float32(2.0**-24)
HALF = np.int32(1 << 23)
LOG_FIRST = 8  # SPARSE: 2^8 <= 2^24 u is where phases begin, four an octave; all below share phase 0
NEVER = np.int32(2**31 - 1)


def phase_edges(family: int) -> NDArray[np.int32]:
    """Return the smallest folded u (24 bits) of the fine phases 1, 2, … of a family."""
    if family == DITHER:
        return (np.arange(1, 8) << 20).astype(np.int32)
    if family == ROUND:
        return (np.arange(1, 8) << 21).astype(np.int32)
    phase = np.arange(1, PHASES)
    return (((4 + phase % 4) << (LOG_FIRST + phase // 4)) // 4).astype(np.int32)


@leaf
def fill_uniforms(n: int, key: Any, first: Any, uniforms: Any) -> None:
    """24 random bits for each of the n elements that begin at index `first`."""
    for j in range(n):
        uniforms[j] = _uniform(first + np.uint32(j), key)


@inline
def _uniform(index: Any, key: Any) -> Any:
    return np.int32(hash32(index, key) >> np.uint32(8))


@leaf
def fill_phases(uniforms: Any, family: int, bits: Any, scratch: Any, rows: Any) -> None:
    """rows[j] = fine phase of uniforms[j] << bits; the phases are those of `phase_edges`."""
    if family <= ROUND:
        _fill_even_phases(uniforms, family, np.uint32(0), bits, rows)
        return
    for j in range(uniforms.size):
        scratch[j] = np.float32(np.int32(np.int32((1 << 24) - 1) - uniforms[j]))  # exact: 24 bits
    numbers = scratch.view(np.int32)
    first = np.int32((127 + LOG_FIRST) << 2)
    for j in range(uniforms.size):  # exponent and two bits of mantissa: four phases an octave
        phase = np.int32(np.int32(numbers[j] >> np.int32(21)) - first)
        rows[j] = np.uint32(np.uint32(phase if phase > np.int32(0) else np.int32(0)) << bits)


@leaf
def _fill_even_phases(uniforms: Any, family: int, base: Any, bits: Any, rows: Any) -> None:
    """rows[j] = base + (fine phase of uniforms[j] << bits) for DITHER and ROUND, which have eight of one length."""
    centre = HALF if family == DITHER else np.int32(1 << 24)  # |u - 1/2|, or 1 - u
    phase_bits = np.int32(20 if family == DITHER else 21)
    for j in range(uniforms.size):
        v = np.int32(uniforms[j] - centre)
        v = np.int32(v ^ np.int32(v >> np.int32(31)))
        rows[j] = np.uint32(base + np.uint32(np.uint32(v >> phase_bits) << bits))


@leaf
def fill_rows(uniforms: Any, family: int, edges: Any, groups: int, base: Any, bits: Any, rows: Any) -> None:
    """rows[j] = base + (group of uniforms[j] << bits); group k begins at edges[k - 1] (all eight edges are set)."""
    if groups == 1:
        for j in range(uniforms.size):
            rows[j] = base
        return
    if groups == GROUPS and family <= ROUND:  # each phase is a group: nothing to look for
        _fill_even_phases(uniforms, family, base, bits, rows)
        return
    centre = HALF if family == DITHER else np.int32(1 << 24)
    e1, e2, e3, e4, e5, e6, e7 = edges[0], edges[1], edges[2], edges[3], edges[4], edges[5], edges[6]
    one = np.uint32(np.uint32(1) << bits)
    r1, r2, r3 = np.uint32(base + one), np.uint32(base + 2 * one), np.uint32(base + 3 * one)
    r4, r5 = np.uint32(base + 4 * one), np.uint32(base + 5 * one)
    r6, r7 = np.uint32(base + 6 * one), np.uint32(base + 7 * one)
    for j in range(uniforms.size):
        v = np.int32(uniforms[j] - centre)
        v = np.int32(v ^ np.int32(v >> np.int32(31)))
        row = r1 if v >= e1 else base  # selects, not a sum of comparisons: two instructions for sixteen elements
        row = r2 if v >= e2 else row
        row = r3 if v >= e3 else row
        row = r4 if v >= e4 else row
        row = r5 if v >= e5 else row
        row = r6 if v >= e6 else row
        rows[j] = r7 if v >= e7 else row


@leaf
def quantize(
    x: Any, inverse: Any, limit: Any, family: int, key: Any, first: Any, uniforms: Any, q: Any
) -> None:  # fmt: skip
    """q[j] of x[j] * inverse, |q| <= limit, mirrored for DITHER where u < 1/2; fills the uniforms on the way."""
    if family == DITHER:
        for j in range(x.size):
            r = _uniform(first + np.uint32(j), key)
            uniforms[j] = r
            level = np.int32(np.floor(np.float32(np.float32(x[j] * inverse) + np.float32(np.float32(r) * UNIT))))
            level = np.int32(max(min(level, limit), np.int32(-limit)))
            mirror = np.int32(np.int32(r - HALF) >> np.int32(31))
            q[j] = np.int32(np.int32(level ^ mirror) - mirror)
    else:
        highest = np.float32(np.float32(limit) + np.float32(0.5))
        for j in range(x.size):
            r = _uniform(first + np.uint32(j), key)
            uniforms[j] = r
            a = np.float32(np.float32(abs(x[j]) * inverse) + np.float32(np.float32(r) * UNIT))
            a = a if a < highest else highest
            q[j] = np.int32(np.copysign(a, x[j]))


@leaf
def add_values(q: Any, step: Any, limit: Any, family: int, uniforms: Any, out: Any) -> None:
    """out += step * the value that q stands for; a forged q is held to the limit."""
    if family == DITHER:
        for j in range(out.size):
            r = uniforms[j]
            mirror = np.int32(np.int32(r - HALF) >> np.int32(31))
            level = np.int32(max(min(q[j], limit), np.int32(-limit)))
            level = np.int32(np.int32(level ^ mirror) - mirror)
            u = np.float32(np.float32(np.int32(r - HALF)) * UNIT)
            out[j] = np.float32(out[j] + np.float32(np.float32(np.float32(level) - u) * step))
    else:
        for j in range(out.size):
            level = np.int32(max(min(q[j], limit), np.int32(-limit)))
            out[j] = np.float32(out[j] + np.float32(np.float32(level) * step))


@leaf
def split_low(q: Any, shift: Any, low: Any) -> None:
    """Move the lowest `shift` bits of q into low."""
    mask = np.int32(np.int32(np.int32(1) << shift) - np.int32(1))
    for j in range(q.size):
        low[j] = np.uint32(np.int32(q[j] & mask))
        q[j] = np.int32(q[j] >> shift)


@leaf
def unfold(folded: Any, shift: Any, low: Any, q: Any) -> None:
    """q = 0, 1, -1, 2, -2, … of 0, 1, 2, 3, 4, …, with `shift` bits of low below it."""
    if shift:
        for j in range(folded.size):
            q[j] = np.int32(np.int32(_unfolded(folded[j]) << shift) | np.int32(low[j]))
    else:
        for j in range(folded.size):
            q[j] = _unfolded(folded[j])


@inline
def _unfolded(folded: Any) -> Any:
    magnitude = np.int32(np.uint32(folded + np.uint32(1)) >> np.uint32(1))
    mirror = np.int32(np.int32(np.int32(folded) & np.int32(1)) - np.int32(1))
    return np.int32(np.int32(magnitude ^ mirror) - mirror)
