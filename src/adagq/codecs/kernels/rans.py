"""Range asymmetric numeral systems (rANS), four interleaved states, 16-bit words.

A state x in [2^15, 2^31) takes in a token of frequency f, first slot c, out of 2^p slots:

    encode   x' = (x // f) 2^p + c + x % f        after giving away a word if x' would pass 2^31
    decode   slot = x mod 2^p, x' = f (x // 2^p) + slot - c, then a word is read if x' < 2^15

The encoder runs backwards, so the decoder runs forwards. Element i of a chunk belongs to state i mod 4; the states
share one stream of words. Division is a multiplication by m = ceil(2^(31 + p) / f) and a shift by 31 + p: exact, as
x < f 2^(31 - p) and m f - 2^(31 + p) < f <= 2^p, and below 2^63. Words are written and read without branches: whether
one moves is as good as random. A decoder that runs out of words repeats the last one (`pad_words`): any stream decodes
to something in range, so nothing can fail halfway. It returns values folded: 0, 1, -1, 2, -2, … as 0, 1, 2, 3, 4, …,
which for most is the token itself.
"""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import inline, leaf
from adagq.codecs.kernels.tokens import (
    ESCAPE,
    ESCAPE_BITS,
    FIRST_WIDE,
    LIMIT,
    SPLIT,
    SPLIT_SHIFT,
    TOKEN_BASE,
    TOKEN_BITS,
    TOKEN_HIGH,
    TOKEN_LOW,
)

STATES = 4
WORDS_PER_ELEMENT = 3  # at most: a token and an escape's 18 raw bits
LOWEST = np.uint32(1 << 15)
NO_TOKEN = 255  # never in a table
SEGMENTS = 4  # decoded in step
RECORD = 4  # numbers that the encoder knows of a token: see `tables.encoding_table`
DENSE_BITS, SPARSE_BITS = 12, 15  # log2 of the slots of a table: by lookup, and by search


@inline
def token_of(q: Any) -> Any:
    """Return the token of a signed integer, |q| < 2^17."""
    magnitude = np.uint64(abs(q))
    if magnitude < np.uint64(SPLIT):  # noqa: SIM108 - one load, not two
        token = TOKEN_LOW[magnitude]
    else:
        token = TOKEN_HIGH[magnitude >> np.uint64(SPLIT_SHIFT)]
    return np.uint64(token) + np.uint64(q < 0)


@inline
def _fold(q: Any) -> Any:
    return np.uint32(np.uint32(np.uint32(abs(q)) << np.uint32(1)) - np.uint32(q > np.int32(0)))


@leaf
def fill_entries(q: Any, rows: Any, entries: Any) -> Any:
    """entries[i]: where the record of row rows[i] and the token of q[i] begins, NO_TOKEN where it has raw bits.

    Return the largest token.
    """
    largest = np.uint32(0)
    for j in range(q.size):
        folded = _fold(q[j])
        token = folded if folded < np.uint32(FIRST_WIDE) else np.uint32(NO_TOKEN)
        largest = token if token > largest else largest
        entries[j] = np.uint32(np.uint32(rows[j] + token) * np.uint32(RECORD))
    return largest


@inline
def _give_for_bits(x: Any, count: Any, words: Any, at: Any) -> Any:
    """Give away a word if `count` raw bits would not fit under 2^31 else; return (state, position)."""
    give = np.uint64((x >> (np.uint64(31) - count)) != np.uint64(0))
    words[at - np.uint64(1)] = np.uint16(x)
    return x >> (give << np.uint64(4)), at - give


@leaf
def _push_raw(x: Any, q: Any, entry: Any, coder: Any, words: Any, at: Any) -> Any:
    """Push the raw bits of a value whose token has some, or whose token the table leaves to ESCAPE.

    Rare and long: kept out of the loop, where it would take the registers.
    """
    row = entry & ~np.uint64((RECORD << 8) - 1)
    token = token_of(q)
    raw = np.uint64(abs(q))
    count = np.uint64(TOKEN_BITS[token])
    entry = row + np.uint64(RECORD) * token
    if coder[entry] == np.uint64(0):
        entry = row + np.uint64(RECORD * ESCAPE)
        raw = np.uint64(q + LIMIT)
        count = np.uint64(ESCAPE_BITS)
        x, at = _give_for_bits(x, count, words, at)
        x = (x << count) | (raw >> count)
    x, at = _give_for_bits(x, count, words, at)
    raw = raw & ((np.uint64(1) << count) - np.uint64(1))
    return (x << count) | raw, entry, at


@inline
def _push_known(x: Any, entry: Any, coder: Any, shift: Any, words: Any, at: Any) -> Any:
    """Encode a token that has slots, at its record in the coder; words are written downwards."""
    words[at - np.uint64(1)] = np.uint16(x)
    give = x >= coder[entry]
    at = at - np.uint64(give)
    x = x >> np.uint64(16) if give else x
    quotient = (x * coder[entry + np.uint64(1)]) >> shift
    return x + coder[entry + np.uint64(3)] + quotient * coder[entry + np.uint64(2)], at


@inline
def _push(x: Any, q: Any, entry: Any, coder: Any, shift: Any, words: Any, at: Any) -> Any:
    """Encode any value; `entry` is where its token's record would be without raw bits."""
    if coder[entry] == np.uint64(0):
        x, entry, at = _push_raw(x, q, entry, coder, words, at)
    return _push_known(x, entry, coder, shift, words, at)


@leaf
def encode_chunk(
    q: Any, entries: Any, n: int, known: bool, coder: Any, bits: Any, state: Any, words: Any, at: int
) -> Any:
    """Push q[n - 1], …, q[0], entries[i] = as `fill_entries` leaves it; return the new beginning of the words.

    `known`: all of these tokens have slots, so none needs a look. States and records have 64 bits here: one array, so
    one address in a register, and no number to widen.
    """
    pos = np.uint64(at)
    i = np.uint64(n)
    shift = np.uint64(31) + np.uint64(bits)
    while i & np.uint64(3):
        i -= np.uint64(1)
        k = i & np.uint64(3)
        x, pos = _push(np.uint64(state[k]), q[i], np.uint64(entries[i]), coder, shift, words, pos)
        state[k] = np.uint32(x)
    x0, x1, x2, x3 = np.uint64(state[0]), np.uint64(state[1]), np.uint64(state[2]), np.uint64(state[3])
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    if known:
        while i:
            i -= np.uint64(4)
            x3, pos = _push_known(x3, np.uint64(entries[i + three]), coder, shift, words, pos)
            x2, pos = _push_known(x2, np.uint64(entries[i + two]), coder, shift, words, pos)
            x1, pos = _push_known(x1, np.uint64(entries[i + one]), coder, shift, words, pos)
            x0, pos = _push_known(x0, np.uint64(entries[i]), coder, shift, words, pos)
    while i:
        i -= np.uint64(4)
        x3, pos = _push(x3, q[i + three], np.uint64(entries[i + three]), coder, shift, words, pos)
        x2, pos = _push(x2, q[i + two], np.uint64(entries[i + two]), coder, shift, words, pos)
        x1, pos = _push(x1, q[i + one], np.uint64(entries[i + one]), coder, shift, words, pos)
        x0, pos = _push(x0, q[i], np.uint64(entries[i]), coder, shift, words, pos)
    state[0], state[1], state[2], state[3] = np.uint32(x0), np.uint32(x1), np.uint32(x2), np.uint32(x3)
    return np.int64(pos)


@leaf
def pad_words(words: Any, out: Any) -> None:
    """Fill `out` with the words and repeats of the last one: an element reads at most WORDS_PER_ELEMENT of them."""
    last = words.size - 1
    for k in range(out.size):
        out[k] = words[min(k, last)]


@inline
def _refill(x: Any, need: Any, word: Any) -> Any:
    full = np.uint32(np.uint32(x << np.uint32(16)) | np.uint32(word))
    return full if need else x


@leaf
def _pull_raw(x: Any, token: Any, words: Any, at: Any) -> Any:
    """Pull the raw bits of a token; return (state, position, folded value). Kept out of the loop as `_push_raw` is."""
    value = TOKEN_BASE[token]
    count = np.uint32(TOKEN_BITS[token])
    high = np.int32(0)
    if token == np.uint8(ESCAPE):
        count = np.uint32(ESCAPE_BITS)
        high = np.int32(x & np.uint32(511))
        x = np.uint32(x >> count)
        need = np.uint32(x < LOWEST)
        x = _refill(x, need, words[at])
        at = at + np.uint64(need)
    raw = np.int32(x & np.uint32(np.uint32(np.uint32(1) << count) - np.uint32(1)))
    x = np.uint32(x >> count)
    need = np.uint32(x < LOWEST)
    x = _refill(x, need, words[at])
    at = at + np.uint64(need)
    if token == np.uint8(ESCAPE):
        return x, at, _fold(np.int32(np.int32(raw << np.int32(ESCAPE_BITS)) + high - LIMIT))
    sign = np.int32(value >> np.int32(31))  # 0 or -1: signs are coin flips, a branch would be too
    return x, at, _fold(np.int32(value + np.int32(np.int32(raw ^ sign) - sign)))


@inline
def _pull(x: Any, row: Any, slots: Any, words: Any, at: Any) -> Any:
    """Return (state, position, folded value); every slot holds token << 24 | freq << 12 | slot - start."""
    entry = slots[np.uint64(np.uint32(row + np.uint32(x & np.uint32(4095))))]
    freq = np.uint32(np.uint32(entry >> np.uint32(12)) & np.uint32(4095))
    x = np.uint32(np.uint32(freq * np.uint32(x >> np.uint32(DENSE_BITS))) + np.uint32(entry & np.uint32(4095)))
    need = np.uint32(x < LOWEST)
    x = _refill(x, need, words[at])
    at = at + np.uint64(need)
    value = np.uint32(entry >> np.uint32(24))
    if value >= np.uint32(FIRST_WIDE):
        x, at, value = _pull_raw(x, np.uint8(value), words, at)
    return x, at, value


@leaf
def _pull_searched(x: Any, row: Any, firsts: Any, tokens: Any, words: Any, at: Any) -> Any:
    """Pull a value other than 0 from a sparse table."""
    slot = np.uint32(x & np.uint32(0x7FFF))
    token = tokens[np.uint64(np.uint32(np.uint32(row << np.uint32(SPARSE_BITS - 8)) + slot))]
    index = np.uint64(row) + np.uint64(token)
    start = firsts[index]
    freq = np.uint32(firsts[index + np.uint64(1)] - start)
    x = np.uint32(np.uint32(freq * np.uint32(x >> np.uint32(SPARSE_BITS))) + np.uint32(slot - start))
    need = np.uint32(x < LOWEST)
    x = _refill(x, need, words[at])
    at = at + np.uint64(need)
    value = np.uint32(token)
    if value >= np.uint32(FIRST_WIDE):
        x, at, value = _pull_raw(x, token, words, at)
    return x, at, value


@inline
def _pull_sparse(x: Any, row: Any, firsts: Any, tokens: Any, words: Any, at: Any) -> Any:
    """The same for tables of 2^15 slots where token 0 takes nearly all: look there first, look up the others."""
    slot = np.uint32(x & np.uint32(0x7FFF))
    freq = firsts[np.uint64(row) + np.uint64(1)]
    if slot < freq:
        x = np.uint32(np.uint32(freq * np.uint32(x >> np.uint32(SPARSE_BITS))) + slot)
        if x < LOWEST:
            x = np.uint32(np.uint32(x << np.uint32(16)) | np.uint32(words[at]))
            at = at + np.uint64(1)
        return x, at, np.uint32(0)
    return _pull_searched(x, row, firsts, tokens, words, at)


@leaf
def decode_chunk(folded: Any, rows: Any, n: int, slots: Any, state: Any, words: Any, at: int) -> Any:
    """Pull folded[0], …, folded[n - 1] with dense tables, rows[i] the first slot of each.

    Return the new position in the words, which are padded: there are WORDS_PER_ELEMENT for each of the n elements.
    """
    pos = np.uint64(at)
    full = np.uint64(n) & ~np.uint64(3)
    x0, x1, x2, x3 = state[0], state[1], state[2], state[3]
    i = np.uint64(0)
    while i < full:
        x0, pos, folded[i] = _pull(x0, rows[i], slots, words, pos)
        x1, pos, folded[i + np.uint64(1)] = _pull(x1, rows[i + np.uint64(1)], slots, words, pos)
        x2, pos, folded[i + np.uint64(2)] = _pull(x2, rows[i + np.uint64(2)], slots, words, pos)
        x3, pos, folded[i + np.uint64(3)] = _pull(x3, rows[i + np.uint64(3)], slots, words, pos)
        i += np.uint64(4)
    state[0], state[1], state[2], state[3] = x0, x1, x2, x3
    while i < np.uint64(n):
        k = i & np.uint64(3)
        state[k], pos, folded[i] = _pull(state[k], rows[i], slots, words, pos)
        i += np.uint64(1)
    return np.int64(pos)


@leaf
def decode_chunk_sparse(
    folded: Any, rows: Any, n: int, firsts: Any, tokens: Any, state: Any, words: Any, at: int
) -> Any:
    """The same with sparse tables."""
    pos = np.uint64(at)
    full = np.uint64(n) & ~np.uint64(3)
    x0, x1, x2, x3 = state[0], state[1], state[2], state[3]
    i = np.uint64(0)
    while i < full:
        x0, pos, folded[i] = _pull_sparse(x0, rows[i], firsts, tokens, words, pos)
        x1, pos, folded[i + np.uint64(1)] = _pull_sparse(x1, rows[i + np.uint64(1)], firsts, tokens, words, pos)
        x2, pos, folded[i + np.uint64(2)] = _pull_sparse(x2, rows[i + np.uint64(2)], firsts, tokens, words, pos)
        x3, pos, folded[i + np.uint64(3)] = _pull_sparse(x3, rows[i + np.uint64(3)], firsts, tokens, words, pos)
        i += np.uint64(4)
    state[0], state[1], state[2], state[3] = x0, x1, x2, x3
    while i < np.uint64(n):
        k = i & np.uint64(3)
        state[k], pos, folded[i] = _pull_sparse(state[k], rows[i], firsts, tokens, words, pos)
        i += np.uint64(1)
    return np.int64(pos)
