"""Entropy coding of plain integers (the gaps between kept indices): one table, one stream."""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import BLOCK, kernel
from adagq.codecs.kernels.fixed import LANES, pack_any, unpack_any
from adagq.codecs.kernels.lattice import join_low, split_low
from adagq.codecs.kernels.rans import (
    DENSE_BITS,
    LOWEST,
    STATES,
    decode_chunk,
    encode_chunk,
    entry_of,
    token_of,
)


@kernel
def count_tokens(values: Any, shift: int, counts: Any) -> None:
    for i in range(values.size):
        counts[token_of(values[i] >> shift)] += 1


@kernel
def encode_integers(values: Any, shift: int, table: Any, reciprocals: Any, raw: Any, words: Any) -> Any:
    """Encode backwards into the end of `words` and return where they begin; low bits go to `raw`, block by block."""
    q = np.empty(BLOCK, np.int32)
    low = np.empty(BLOCK, np.uint32)
    entries = np.empty(BLOCK, np.uint32)
    state = np.full(STATES, LOWEST, np.uint32)
    at = words.size
    for block in range((values.size - 1) // BLOCK, -1, -1):
        n = min(BLOCK, values.size - block * BLOCK)
        for j in range(n):
            q[j] = values[block * BLOCK + j]
        if shift:
            split_low(q[:n], np.int32(shift), low)
            pack_any(low[:n], shift, raw[block * LANES * shift : (block + 1) * LANES * shift])
        for j in range(n):
            entries[j] = entry_of(q[j], np.uint32(0))
        at = encode_chunk(q, entries, n, table, reciprocals, np.uint32(DENSE_BITS), state, words, at)
    for s in range(STATES - 1, -1, -1):
        words[at - 1] = np.uint16(state[s])
        words[at - 2] = np.uint16(state[s] >> np.uint32(16))
        at -= 2
    return at


@kernel
def decode_integers(words: Any, shift: int, slots: Any, raw: Any, values: Any) -> None:
    q = np.empty(BLOCK, np.int32)
    low = np.empty(BLOCK, np.uint32)
    rows = np.zeros(BLOCK, np.uint32)
    state = np.empty(STATES, np.uint32)
    for s in range(STATES):
        state[s] = np.uint32(np.uint32(words[2 * s]) << np.uint32(16)) | np.uint32(words[2 * s + 1])
    at = 2 * STATES
    for block in range(-(-values.size // BLOCK)):
        n = min(BLOCK, values.size - block * BLOCK)
        at = decode_chunk(q, rows, n, slots, state, words, at)
        if shift:
            unpack_any(raw[block * LANES * shift : (block + 1) * LANES * shift], shift, low[:n])
            join_low(q[:n], np.int32(shift), low)
        for j in range(n):
            values[block * BLOCK + j] = q[j]
