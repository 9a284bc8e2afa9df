"""Fixed-width packing: quantize and pack a block, unpack and add a block.

A block of 2,048 values is 32 rows of 64 lanes. Lane j packs the 32 values of its column into `width` words of
32 bits, so every row has one shift for all lanes, and one kernel serves every width.
"""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import BLOCK, hash32, kernel, leaf

LANES = 64
ROWS = BLOCK // LANES
SLAB = 256  # blocks: 2 MB of float32
UNIT = np.float32(2.0**-24)


@leaf
def round_stochastic(x: Any, inverse: Any, levels: Any, key: Any, first: Any, codes: Any) -> None:
    """codes = levels + sign(x) * floor(|x| * inverse + u): up with the probability of the fraction."""
    highest = np.float32(np.float32(levels) + np.float32(0.5))
    for j in range(x.size):
        u = np.float32(np.float32(np.int32(hash32(first + np.uint32(j), key) >> np.uint32(8))) * UNIT)
        a = np.float32(np.float32(abs(x[j]) * inverse) + u)
        a = a if a < highest else highest
        codes[j] = np.uint32(np.int32(levels + np.int32(np.copysign(a, x[j]))))


@leaf
def round_dithered(x: Any, inverse: Any, levels: Any, key: Any, first: Any, codes: Any) -> None:
    """codes = levels + floor(x * inverse + u), u uniform in [0, 1): the decoder takes u - 1/2 off again."""
    for j in range(x.size):
        a = np.float32(x[j] * inverse)
        u = np.float32(np.float32(np.int32(hash32(first + np.uint32(j), key) >> np.uint32(8))) * UNIT)
        level = np.int32(np.floor(np.float32(a + u)))
        level = np.int32(max(min(level, levels), np.int32(-levels)))
        codes[j] = np.uint32(np.int32(levels + level))


@leaf
def _set_word(rows: Any, right: Any, out: Any) -> None:
    for j in range(LANES):
        out[j] = np.uint32(rows[j] >> right)


@leaf
def _set_two(rows: Any, right: Any, left: Any, out: Any) -> None:
    """The end of a row and the beginning of the next: words are stored once."""
    for j in range(LANES):
        out[j] = np.uint32(np.uint32(rows[j] >> right) | np.uint32(rows[j + LANES] << left))


@leaf
def _set_three(rows: Any, right: Any, left: Any, width: Any, out: Any) -> None:
    second = np.uint32(left + width)
    for j in range(LANES):
        low = np.uint32(np.uint32(rows[j] >> right) | np.uint32(rows[j + LANES] << left))
        out[j] = np.uint32(low | np.uint32(rows[j + 2 * LANES] << second))


@leaf
def _or_row(row: Any, left: Any, out: Any) -> None:
    for j in range(LANES):
        out[j] = np.uint32(out[j] | np.uint32(row[j] << left))


@leaf
def _or_rows(rows: Any, left: Any, width: Any, out: Any) -> None:
    """Four rows at a time: the word is loaded and stored once."""
    second = np.uint32(left + width)
    third = np.uint32(second + width)
    fourth = np.uint32(third + width)
    for j in range(LANES):
        low = np.uint32(np.uint32(rows[j] << left) | np.uint32(rows[j + LANES] << second))
        high = np.uint32(np.uint32(rows[j + 2 * LANES] << third) | np.uint32(rows[j + 3 * LANES] << fourth))
        out[j] = np.uint32(out[j] | np.uint32(low | high))


@leaf
def pack_block(codes: Any, width: int, words: Any) -> None:
    """Pack 2,048 codes of `width` bits into 64 * width words, one row of words after the other."""
    for word in range(width):
        out = words[word * LANES : word * LANES + LANES]
        r = (32 * word) // width
        right = np.uint32(32 * word - r * width)
        left = (r + 1) * width - 32 * word
        rows = codes[r * LANES :]
        if left + width < 32 and r + 2 < ROWS:
            _set_three(rows, right, np.uint32(left), np.uint32(width), out)
            taken = 3
        elif left < 32 and r + 1 < ROWS:
            _set_two(rows, right, np.uint32(left), out)
            taken = 2
        else:
            _set_word(rows, right, out)
            taken = 1
        r += taken
        left += (taken - 1) * width
        while left + 3 * width < 32:
            _or_rows(codes[r * LANES : (r + 4) * LANES], np.uint32(left), np.uint32(width), out)
            r += 4
            left += 4 * width
        while left < 32 and r < ROWS:
            _or_row(codes[r * LANES : r * LANES + LANES], np.uint32(left), out)
            r += 1
            left += width


@leaf
def _read_row(low: Any, right: Any, mask: Any, out: Any) -> None:
    for j in range(LANES):
        out[j] = np.uint32(np.uint32(low[j] >> right) & mask)


@leaf
def _read_split_row(low: Any, high: Any, right: Any, left: Any, mask: Any, out: Any) -> None:
    for j in range(LANES):
        out[j] = np.uint32(np.uint32(np.uint32(low[j] >> right) | np.uint32(high[j] << left)) & mask)


@leaf
def unpack_block(words: Any, width: int, codes: Any) -> None:
    """Undo `pack_block`."""
    mask = np.uint32((1 << width) - 1)
    for r in range(ROWS):
        bit = r * width
        word = bit >> 5
        shift = bit & 31
        low = words[word * LANES : word * LANES + LANES]
        out = codes[r * LANES : r * LANES + LANES]
        if shift + width <= 32:
            _read_row(low, np.uint32(shift), mask, out)
        else:
            high = words[(word + 1) * LANES : (word + 1) * LANES + LANES]
            _read_split_row(low, high, np.uint32(shift), np.uint32(32 - shift), mask, out)


@leaf
def _pack_tail(codes: Any, width: int, words: Any) -> None:
    """Pack fewer than 2,048 codes one after the other."""
    for k in range(words.size):
        words[k] = np.uint32(0)
    for j in range(codes.size):
        bit = j * width
        word = bit >> 5
        shift = bit & 31
        words[word] |= np.uint32(codes[j] << np.uint32(shift))
        if shift + width > 32:
            words[word + 1] |= np.uint32(codes[j] >> np.uint32(32 - shift))


@leaf
def _unpack_tail(words: Any, width: int, codes: Any) -> None:
    mask = np.uint32((1 << width) - 1)
    for j in range(codes.size):
        bit = j * width
        word = bit >> 5
        shift = bit & 31
        code = np.uint32(words[word] >> np.uint32(shift))
        if shift + width > 32:
            code = np.uint32(code | np.uint32(words[word + 1] << np.uint32(32 - shift)))
        codes[j] = np.uint32(code & mask)


@leaf
def pack_any(codes: Any, width: int, words: Any) -> None:
    """Pack at most one block of codes: a full one in lanes, a shorter one in sequence."""
    if codes.size == BLOCK:
        pack_block(codes, width, words)
    else:
        _pack_tail(codes, width, words)


@leaf
def unpack_any(words: Any, width: int, codes: Any) -> None:
    """Undo `pack_any`."""
    if codes.size == BLOCK:
        unpack_block(words, width, codes)
    else:
        _unpack_tail(words, width, codes)


@leaf
def add_levels(codes: Any, levels: Any, step: Any, out: Any) -> None:
    for j in range(out.size):
        level = np.int32(min(np.int32(np.int32(codes[j]) - levels), levels))  # a forged code is held to the limit
        out[j] = np.float32(out[j] + np.float32(np.float32(level) * step))


@leaf
def add_dithered(codes: Any, levels: Any, step: Any, key: Any, first: Any, out: Any) -> None:
    half = np.float32(0.5)
    for j in range(out.size):
        u = np.float32(np.float32(np.int32(hash32(first + np.uint32(j), key) >> np.uint32(8))) * UNIT)
        level = np.int32(min(np.int32(np.int32(codes[j]) - levels), levels))
        value = np.float32(np.float32(level) - np.float32(u - half))
        out[j] = np.float32(out[j] + np.float32(value * step))


@kernel
def encode_blocks(
    x: Any, starts: Any, inverses: Any, levels: Any, dither: bool, key: Any, width: int, lo: int, hi: int, words: Any
) -> None:  # fmt: skip
    """Quantize and pack blocks lo..hi; span k covers starts[k]..starts[k + 1] and is scaled by inverses[k].

    Slab by slab, the last one first: the scan before has left the end of x in the cache.
    """
    codes = np.empty(BLOCK, np.uint32)
    for slab in range(lo + (hi - lo - 1) // SLAB * SLAB, lo - 1, -SLAB):
        span = np.searchsorted(starts, slab * BLOCK, side="right") - 1
        for block in range(slab, min(slab + SLAB, hi)):
            at = block * BLOCK
            end = min(at + BLOCK, x.size)
            position = at
            while position < end:
                while starts[span + 1] <= position:
                    span += 1
                stop = min(end, starts[span + 1])
                target = codes[position - at : stop - at]
                if dither:
                    round_dithered(x[position:stop], inverses[span], levels, key, np.uint32(position), target)
                else:
                    round_stochastic(x[position:stop], inverses[span], levels, key, np.uint32(position), target)
                position = stop
            pack_any(codes[: end - at], width, words[block * width * LANES : (block + 1) * width * LANES])


@kernel
def decode_blocks(
    words: Any,
    starts: Any,
    steps: Any,
    levels: Any,
    dither: bool,
    key: Any,
    width: int,
    lo: int,
    hi: int,
    out: Any,
) -> None:
    """Add blocks lo..hi to `out`; steps[k] is weight * scale / levels of span k."""
    codes = np.empty(BLOCK, np.uint32)
    span = np.searchsorted(starts, lo * BLOCK, side="right") - 1
    for block in range(lo, hi):
        at = block * BLOCK
        end = min(at + BLOCK, out.size)
        unpack_any(words[block * width * LANES : (block + 1) * width * LANES], width, codes[: end - at])
        position = at
        while position < end:
            while starts[span + 1] <= position:
                span += 1
            stop = min(end, starts[span + 1])
            source = codes[position - at : stop - at]
            if dither:
                add_dithered(source, levels, steps[span], key, np.uint32(position), out[position:stop])
            else:
                add_levels(source, levels, steps[span], out[position:stop])
            position = stop
