"""Which neighbours may share a table: greedy merging while the table costs more than it saves.

The cost of a histogram is the bits its symbols take with their own frequencies plus the bits to send these.
"""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import kernel

TABLE_BITS = 11.0  # measured: bits to send one frequency


@kernel
def histogram_bits(counts: Any) -> Any:
    """N log2 N - sum c log2 c, plus the table."""
    total = 0.0
    own = 0.0
    used = 0
    for k in range(counts.size):
        c = counts[k]
        if c > 0:
            total += c
            own += c * np.log2(c)
            used += 1
    return (total * np.log2(total) - own if total > 0 else 0.0) + TABLE_BITS * used


@kernel
def merge_neighbours(counts: Any, kinds: Any, separator_bits: float, tables: float, most: int) -> Any:
    """Return the group of every row of counts[row, token]; only rows of the same kind merge.

    `separator_bits`: what one group more costs besides its table; `tables`: how many tables of the size of this
    histogram's each group will send; `most`: the largest number of groups.
    """
    n = counts.shape[0]
    groups = np.arange(n)
    sums = counts.copy()
    costs = np.empty(n)
    gains = np.empty(n)  # of merging group g with the next one
    heads = np.arange(n)
    live = n
    for g in range(n):
        costs[g] = _cost(sums[g], tables)
    for g in range(n - 1):
        gains[g] = _gain(sums, costs, kinds, g, g + 1, separator_bits, tables)
    while live > 1:
        best = -1
        for k in range(live - 1):
            if best < 0 or gains[heads[k]] > gains[heads[best]]:
                best = k
        if gains[heads[best]] == -np.inf or (gains[heads[best]] <= 0 and live <= most):
            break
        g, h = heads[best], heads[best + 1]
        sums[g] += sums[h]
        costs[g] = _cost(sums[g], tables)
        for i in range(n):
            if groups[i] == h:
                groups[i] = g
        for k in range(best + 1, live - 1):
            heads[k] = heads[k + 1]
        live -= 1
        if best < live - 1:
            gains[g] = _gain(sums, costs, kinds, g, heads[best + 1], separator_bits, tables)
        if best > 0:
            before = heads[best - 1]
            gains[before] = _gain(sums, costs, kinds, before, g, separator_bits, tables)
    for k in range(live):
        for i in range(n):
            if groups[i] == heads[k]:
                groups[i] = k
    return groups


@kernel
def _cost(counts: Any, tables: float) -> Any:
    used = 0
    for k in range(counts.size):
        used += int(counts[k] > 0)
    return histogram_bits(counts) + (tables - 1.0) * TABLE_BITS * used


@kernel
def _gain(sums: Any, costs: Any, kinds: Any, g: int, h: int, separator_bits: float, tables: float) -> Any:
    if kinds[g] != kinds[h]:
        return -np.inf
    return costs[g] + costs[h] + separator_bits - _cost(sums[g] + sums[h], tables)


@kernel
def frequencies(counts: Any, bits: int, escape: int, out: Any) -> Any:
    """Scale counts to frequencies that sum to 2^bits, rare tokens left to `escape`; return the bits they take."""
    slots = 1 << bits
    total = 0.0
    for k in range(counts.size):
        total += counts[k]
    out[:] = np.uint32(0)
    if total == 0:
        out[0] = np.uint32(slots - 1)
        out[escape] = np.uint32(1)
        return 0.0
    escaped = 0.0
    taken = 0
    for k in range(counts.size):
        share = counts[k] / total * slots
        if share < 0.1 or k == escape:
            escaped += counts[k]
        else:
            out[k] = np.uint32(max(1, int(share + 0.5)))
            taken += int(out[k])
    out[escape] = np.uint32(max(1, int(escaped / total * slots + 0.5)))
    taken += int(out[escape])
    order = np.argsort(out)
    at = out.size - 1
    while taken != slots:
        k = order[at]
        if taken < slots:
            out[k] += np.uint32(1)
            taken += 1
        elif out[k] > 1:
            out[k] -= np.uint32(1)
            taken -= 1
        at -= 1
        if at < 0 or out[order[at]] <= 1:
            at = out.size - 1
    cost = escaped * (18.0 + bits - np.log2(np.float64(out[escape])))
    for k in range(counts.size):
        if k != escape and out[k] > 0:
            cost += counts[k] * (bits - np.log2(np.float64(out[k])))
    return cost
