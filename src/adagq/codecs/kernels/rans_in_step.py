"""rANS, four segments decoded in step: the states of each are one vector register, and while one waits for its tables
the others go on. The format and everything that goes one by one are in `rans`.
"""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import inline, leaf
from adagq.codecs.kernels.lanes import any_reaches, gather, larger, load, refill, spread, store
from adagq.codecs.kernels.rans import DENSE_BITS, LOWEST, SEGMENTS, decode_chunk
from adagq.codecs.kernels.tokens import FIRST_WIDE


@inline
def _pulled(x: Any, entries: Any, words: Any, at: Any) -> Any:
    """Return (states, position) behind four tokens without raw bits."""
    low, bits = spread(np.uint32(4095)), spread(np.uint32(DENSE_BITS))
    x = ((entries >> bits) & low) * (x >> bits) + (entries & low)
    return refill(x, spread(LOWEST), words, at)


@leaf
def decode_four(folded: Any, rows: Any, n: int, slots: Any, state: Any, words: Any, at: Any) -> None:
    """`decode_chunk` of four segments in step: folded[k], rows[k], state[k] and at[k] are those of segment k; 4 | n.

    Words of a token's raw bits come between those of its neighbours: where one has some, 16 values go one by one.
    """
    low, wide, top = spread(np.uint32(4095)), spread(np.uint32(FIRST_WIDE << 24)), spread(np.uint32(24))
    four, stride = np.uint64(4), np.uint64(rows.shape[1])
    a, b, c, d = load(state, np.uint64(0)), load(state, four), load(state, np.uint64(8)), load(state, np.uint64(12))
    at_a, at_b, at_c, at_d = at[0], at[1], at[2], at[3]
    i = np.uint64(0)
    while i < np.uint64(n):
        j = i + stride
        k = j + stride
        m = k + stride
        in_a = gather(slots, load(rows, i) + (a & low))
        in_b = gather(slots, load(rows, j) + (b & low))
        in_c = gather(slots, load(rows, k) + (c & low))
        in_d = gather(slots, load(rows, m) + (d & low))
        if any_reaches(larger(larger(in_a, in_b), larger(in_c, in_d)), wide):
            store(state, np.uint64(0), a)
            store(state, four, b)
            store(state, np.uint64(8), c)
            store(state, np.uint64(12), d)
            at[0], at[1], at[2], at[3] = at_a, at_b, at_c, at_d
            for s in range(SEGMENTS):
                at[s] = np.uint64(decode_chunk(folded[s, i:], rows[s, i:], 4, slots, state[s], words, np.int64(at[s])))
            a, b, c, d = (
                load(state, np.uint64(0)),
                load(state, four),
                load(state, np.uint64(8)),
                load(state, np.uint64(12)),
            )
            at_a, at_b, at_c, at_d = at[0], at[1], at[2], at[3]
        else:
            a, at_a = _pulled(a, in_a, words, at_a)
            b, at_b = _pulled(b, in_b, words, at_b)
            c, at_c = _pulled(c, in_c, words, at_c)
            d, at_d = _pulled(d, in_d, words, at_d)
            store(folded, i, in_a >> top)
            store(folded, j, in_b >> top)
            store(folded, k, in_c >> top)
            store(folded, m, in_d >> top)
        i += four
    store(state, np.uint64(0), a)
    store(state, four, b)
    store(state, np.uint64(8), c)
    store(state, np.uint64(12), d)
    at[0], at[1], at[2], at[3] = at_a, at_b, at_c, at_d
