"""Whole segments: count symbols, encode, decode. A segment is a run of chunks with a word stream of its own.

Per chunk: where it starts, the class whose tables code it, and the scale of its span. Per class: family, shift
(how many low bits travel raw), and the edges that put an element's random number into one of eight groups, each
with a table row of its own.
"""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import kernel, leaf
from adagq.codecs.kernels.fixed import pack_any, unpack_any
from adagq.codecs.kernels.lattice import (
    DITHER,
    RARE,
    add_values,
    fill_phases,
    fill_rows,
    fill_uniforms,
    quantize,
    split_low,
    unfold,
)
from adagq.codecs.kernels.prefetch import fetch
from adagq.codecs.kernels.rans import (
    DENSE_BITS,
    LOWEST,
    SEGMENTS,
    SPARSE_BITS,
    STATES,
    WORDS_PER_ELEMENT,
    decode_chunk,
    decode_chunk_sparse,
    encode_chunk,
    fill_entries,
    pad_words,
    token_of,
)
from adagq.codecs.kernels.rans_in_step import decode_four

ROW_BITS = np.uint32(8)  # log2 of the entries of a table's row
WORTH_A_STEP = 3  # segments: two are decoded faster one after the other


@leaf
def _count(q: Any, rows: Any, counts: Any) -> None:
    """counts[rows[j] + token of q[j]] += 1."""
    for j in range(q.size):
        counts[np.uint64(rows[j]) + token_of(q[j])] += np.uint32(1)


@kernel
def count_chunks(
    x: Any, picked: Any, starts: Any, classes: Any, families: Any, shifts: Any, inverses: Any, limits: Any,
    key: Any, longest: int, counts: Any,
) -> None:  # fmt: skip
    """Add the symbols of the picked chunks to counts[class, fine phase, token]."""
    q = np.empty(longest, np.int32)
    low = np.empty(longest, np.uint32)
    uniforms = np.empty(longest, np.int32)
    scratch = np.empty(longest, np.float32)
    rows = np.empty(longest, np.uint32)
    for chunk in picked:
        start = starts[chunk]
        n = starts[chunk + 1] - start
        c = classes[chunk]
        piece = x[start : start + n]
        quantize(piece, inverses[chunk], limits[c], families[c], key, np.uint32(start), uniforms, q)
        if shifts[c]:
            split_low(q[:n], np.int32(shifts[c]), low)
            rows[:] = np.uint32(0)
        else:
            fill_phases(uniforms[:n], families[c], ROW_BITS, scratch, rows)
        _count(q[:n], rows, counts[c].reshape(-1))


@kernel
def encode_segment(
    x: Any, lo: int, hi: int, starts: Any, classes: Any, families: Any, shifts: Any, edges: Any, groups: Any,
    bases: Any, inverses: Any, limits: Any, key: Any, longest: int, coder: Any, absent: Any,
    raw_at: Any, raw: Any, words: Any,
) -> Any:  # fmt: skip
    """Encode chunks lo..hi backwards into the end of `words`; return where they begin. States go first.

    absent[c] is the first token without slots in a table of class c.
    """
    q = np.empty(longest, np.int32)
    low = np.empty(longest, np.uint32)
    uniforms = np.empty(longest, np.int32)
    rows = np.empty(longest, np.uint32)
    entries = np.empty(longest, np.uint32)  # not in place: loops over the same array do not vectorise
    state = np.full(STATES, LOWEST, np.uint32)
    at = words.size
    for chunk in range(hi - 1, lo - 1, -1):
        start = starts[chunk]
        n = starts[chunk + 1] - start
        c = classes[chunk]
        piece = x[start : start + n]
        quantize(piece, inverses[chunk], limits[c], families[c], key, np.uint32(start), uniforms, q)
        if shifts[c]:
            split_low(q[:n], np.int32(shifts[c]), low)
            pack_any(low[:n], shifts[c], raw[raw_at[chunk] : raw_at[chunk + 1]])
        fill_rows(uniforms[:n], families[c], edges[c], groups[c], bases[c], ROW_BITS, rows)
        known = fill_entries(q[:n], rows, entries) < absent[c]
        bits = np.uint32(SPARSE_BITS if families[c] == RARE else DENSE_BITS)
        if chunk > lo:
            fetch(x[starts[chunk - 1] : start])
        at = encode_chunk(q, entries, n, known, coder, bits, state, words, at)
    for s in range(STATES - 1, -1, -1):
        words[at - 1] = np.uint16(state[s])
        words[at - 2] = np.uint16(state[s] >> np.uint32(16))
        at -= 2
    return at


@kernel
def decode_segments(
    words: Any, word_at: Any, bounds: Any, first: int, last: int, starts: Any, classes: Any, families: Any, shifts: Any,
    edges: Any, groups: Any, bases: Any, steps: Any, limits: Any, key: Any, longest: int, slots: Any, firsts: Any,
    tokens: Any, in_step: Any, raw_at: Any, raw: Any, out: Any,
) -> None:  # fmt: skip
    """Add segments first..last, at most SEGMENTS, to `out`; steps[chunk] is weight * step of its lattice.

    Segment s has the chunks from bounds[s] and the words from word_at[s]. Dense tables and those of RARE classes are
    two lists: `slots` holds the former, `firsts` and `tokens` the latter. in_step[c]: chunks of class c are decoded in
    step with those of other segments.
    """
    q = np.empty(longest, np.int32)
    low = np.empty(longest, np.uint32)
    uniforms = np.empty((SEGMENTS, longest), np.int32)
    rows = np.zeros((SEGMENTS, longest), np.uint32)
    folded = np.empty((SEGMENTS, longest), np.uint32)
    state = np.zeros((SEGMENTS, STATES), np.uint32)
    room = WORDS_PER_ELEMENT * longest
    padded = np.empty(word_at[last] - word_at[first] + (last - first) * room, np.uint16)
    at = np.zeros(SEGMENTS, np.uint64)
    ends = np.zeros(SEGMENTS, np.uint64)  # of each segment's own words in `padded`
    chunks = np.zeros(SEGMENTS, np.int64)  # the next one of each segment
    ready = np.zeros(SEGMENTS, np.bool_)
    for k in range(last - first):
        own = words[word_at[first + k] : word_at[first + k + 1]]
        place = word_at[first + k] - word_at[first] + k * room
        pad_words(own, padded[place : place + own.size + room])
        for s in range(STATES):
            state[k, s] = np.uint32(np.uint32(own[2 * s]) << np.uint32(16)) | np.uint32(own[2 * s + 1])
        at[k] = place + 2 * STATES
        ends[k] = place + own.size
        chunks[k] = bounds[first + k]
    while True:
        waiting = 0
        common = longest
        for k in range(last - first):
            ready[k] = False
            while chunks[k] < bounds[first + k + 1] and not ready[k]:
                chunk = chunks[k]
                start = starts[chunk]
                n = starts[chunk + 1] - start
                c = classes[chunk]
                fetch(out[start : start + n])
                at[k] = min(at[k], ends[k])  # behind them all words are the same
                if families[c] == DITHER or groups[c] > 1:  # else neither the tables nor the values depend on them
                    fill_uniforms(n, key, np.uint32(start), uniforms[k])
                base, bits = bases[c], ROW_BITS
                if families[c] != RARE:
                    base, bits = np.uint32(base << np.uint32(DENSE_BITS - 8)), np.uint32(DENSE_BITS)
                fill_rows(uniforms[k, :n], families[c], edges[c], groups[c], base, bits, rows[k])
                if in_step[c]:
                    ready[k] = True
                    waiting += 1
                    common = min(common, n)
                    continue
                if families[c] == RARE:
                    end = decode_chunk_sparse(folded[k], rows[k], n, firsts, tokens, state[k], padded, np.int64(at[k]))
                else:
                    end = decode_chunk(folded[k], rows[k], n, slots, state[k], padded, np.int64(at[k]))
                at[k] = end
                _add_chunk(
                    folded[k, :n], shifts[c], raw[raw_at[chunk] : raw_at[chunk + 1]], low, q, steps[chunk], limits[c],
                    families[c], uniforms[k], out[start : start + n],
                )  # fmt: skip
                chunks[k] += 1
        if waiting == 0:
            return
        if waiting >= WORTH_A_STEP:
            common &= ~3
            for k in range(SEGMENTS):
                if not ready[k]:  # it has ended: what it decodes is nobody's, but must lie inside the arrays
                    at[k] = np.uint64(0)
                    rows[k, :] = np.uint32(0)
            decode_four(folded, rows, common, slots, state, padded, at)
        else:
            common = 0
        for k in range(last - first):
            if not ready[k]:
                continue
            chunk = chunks[k]
            start = starts[chunk]
            n = starts[chunk + 1] - start
            c = classes[chunk]
            at[k] = decode_chunk(
                folded[k, common:], rows[k, common:], n - common, slots, state[k], padded, np.int64(at[k])
            )
            _add_chunk(
                folded[k, :n], shifts[c], raw[raw_at[chunk] : raw_at[chunk + 1]], low, q, steps[chunk], limits[c],
                families[c], uniforms[k], out[start : start + n],
            )  # fmt: skip
            chunks[k] += 1


@leaf
def _add_chunk(
    folded: Any, shift: int, raw: Any, low: Any, q: Any, step: Any, limit: Any, family: int, uniforms: Any, out: Any
) -> None:  # fmt: skip
    """Add the decoded values of one chunk to `out`; q and low are scratch."""
    if shift:
        unpack_any(raw, shift, low[: folded.size])
    unfold(folded, np.int32(shift), low, q)
    add_values(q, step, limit, family, uniforms, out)
