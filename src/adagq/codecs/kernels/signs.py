"""Signs: one bit a value, packed as `kernels.fixed` packs codes of width 1."""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import BLOCK, kernel, leaf
from adagq.codecs.kernels.fixed import LANES, pack_any, unpack_any


@leaf
def _sign_bits(bits: Any, codes: Any) -> None:
    for j in range(bits.size):
        codes[j] = np.uint32(bits[j] >> np.uint32(31))


@leaf
def _add_signs(codes: Any, step: Any, out: Any) -> None:
    for j in range(out.size):
        sign = np.float32(np.int32(np.int32(1) - np.int32(np.int32(codes[j]) << np.int32(1))))
        out[j] = np.float32(out[j] + np.float32(sign * step))


@kernel
def pack_signs(bits: Any, lo: int, hi: int, words: Any) -> None:
    """Pack the sign bits of blocks lo..hi; 64 words a block."""
    codes = np.empty(BLOCK, np.uint32)
    for block in range(lo, hi):
        at = block * BLOCK
        n = min(BLOCK, bits.size - at)
        _sign_bits(bits[at : at + n], codes)
        pack_any(codes[:n], 1, words[block * LANES : (block + 1) * LANES])


@kernel
def add_signs(words: Any, starts: Any, steps: Any, lo: int, hi: int, out: Any) -> None:
    """Add +-steps[span] to blocks lo..hi of `out`."""
    codes = np.empty(BLOCK, np.uint32)
    span = np.searchsorted(starts, lo * BLOCK, side="right") - 1
    for block in range(lo, hi):
        at = block * BLOCK
        end = min(at + BLOCK, out.size)
        unpack_any(words[block * LANES : (block + 1) * LANES], 1, codes[: end - at])
        position = at
        while position < end:
            while starts[span + 1] <= position:
                span += 1
            stop = min(end, starts[span + 1])
            _add_signs(codes[position - at : stop - at], steps[span], out[position:stop])
            position = stop
