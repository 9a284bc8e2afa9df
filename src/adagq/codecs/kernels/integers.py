"""Entropy coding of plain integers (the gaps between kept indices): one table, one stream."""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import BLOCK, kernel
from adagq.codecs.kernels.fixed import LANES, pack_any, unpack_any
from adagq.codecs.kernels.lattice import split_low, unfold
from adagq.codecs.kernels.rans import (
    DENSE_BITS,
    LOWEST,
    STATES,
    WORDS_PER_ELEMENT,
    decode_chunk,
    encode_chunk,
    fill_entries,
    pad_words,
    token_of,
)


@kernel
def count_tokens(values: Any, shift: int, counts: Any) -> None:
    for i in range(values.size):
        counts[token_of(values[i] >> shift)] += 1


@kernel
def encode_integers(values: Any, shift: int, coder: Any, raw: Any, words: Any) -> Any:
    """Encode backwards into the end of `words` and return where they begin; low bits go to `raw`, block by block."""
    q = np.empty(BLOCK, np.int32)
    low = np.empty(BLOCK, np.uint32)
    entries = np.empty(BLOCK, np.uint32)
    rows = np.zeros(BLOCK, np.uint32)
    state = np.full(STATES, LOWEST, np.uint32)
    at = words.size
    for block in range((values.size - 1) // BLOCK, -1, -1):
        n = min(BLOCK, values.size - block * BLOCK)
        for j in range(n):
            q[j] = values[block * BLOCK + j]
        if shift:
            split_low(q[:n], np.int32(shift), low)
            pack_any(low[:n], shift, raw[block * LANES * shift : (block + 1) * LANES * shift])
        fill_entries(q[:n], rows, entries)
        at = encode_chunk(q, entries, n, False, coder, np.uint32(DENSE_BITS), state, words, at)
    for s in range(STATES - 1, -1, -1):
        words[at - 1] = np.uint16(state[s])
        words[at - 2] = np.uint16(state[s] >> np.uint32(16))
        at -= 2
    return at


@kernel
def decode_integers(words: Any, shift: int, slots: Any, raw: Any, values: Any) -> None:
    q = np.empty(BLOCK, np.int32)
    low = np.empty(BLOCK, np.uint32)
    folded = np.empty(BLOCK, np.uint32)
    rows = np.zeros(BLOCK, np.uint32)
    state = np.empty(STATES, np.uint32)
    for s in range(STATES):
        state[s] = np.uint32(np.uint32(words[2 * s]) << np.uint32(16)) | np.uint32(words[2 * s + 1])
    padded = np.empty(words.size + WORDS_PER_ELEMENT * BLOCK, np.uint16)
    pad_words(words, padded)
    at = 2 * STATES
    for block in range(-(-values.size // BLOCK)):
        n = min(BLOCK, values.size - block * BLOCK)
        at = decode_chunk(folded, rows, n, slots, state, padded, min(at, words.size))
        if shift:
            unpack_any(raw[block * LANES * shift : (block + 1) * LANES * shift], shift, low[:n])
        unfold(folded[:n], np.int32(shift), low, q)
        for j in range(n):
            values[block * BLOCK + j] = q[j]


@kernel
def gaps_to_indices(gaps: Any, far: int, elements: int, indices: Any) -> Any:
    """Fill the indices that the gaps lead to and return how many; -1 if one lies outside. May be the same memory."""
    position = np.int64(-1)
    found = 0
    for i in range(gaps.size):
        gap = np.int64(gaps[i])
        position += gap
        if gap == far:
            continue
        position += 1
        if gap < 0 or position >= elements:
            return -1
        indices[found] = np.uint32(position)
        found += 1
    return found


@kernel
def rises(indices: Any, elements: int) -> Any:
    """Whether every index is larger than the one before it, and inside the vector."""
    before = np.int64(-1)
    for i in range(indices.size):
        if np.int64(indices[i]) <= before:
            return False
        before = np.int64(indices[i])
    return before < elements


@kernel
def add_scattered(indices: Any, values: Any, weight: Any, out: Any) -> None:
    """out[indices] += weight * values."""
    for i in range(indices.size):
        k = np.int64(indices[i])
        out[k] = np.float32(out[k] + np.float32(weight * values[i]))
