"""Frequency tables as bytes and back, and spread over the slots that the decoder looks up.

A frequency is a number of seven bits a byte, lowest first; a zero is followed by how many tokens are not used.
"""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import kernel

NUMBER_BYTES = 3  # of a frequency at most: 2^15
ENDS_EARLY, NOT_A_FREQUENCY, NOT_A_RUN, NOT_A_SUM = -1, -2, -3, -4


@kernel
def pack_table(table: Any, out: Any) -> Any:
    """Write frequencies as numbers of seven bits a byte, unused tokens as a zero and their count; return the length."""
    at = 0
    token = 0
    while token < table.size:
        value = table[token]
        if value == 0:
            run = 1
            while token + run < table.size and run < 255 and table[token + run] == 0:
                run += 1
            out[at] = 0
            out[at + 1] = run
            at += 2
            token += run
            continue
        while value >= 128:
            out[at] = 128 | (value & 127)
            value >>= 7
            at += 1
        out[at] = value
        at += 1
        token += 1
    return at


@kernel
def unpack_table(data: Any, at: int, bits: int, out: Any) -> Any:
    """Undo `pack_table` from data[at]; return where the table ends, or one of the four errors.

    Every step uses up a token, and a number has at most three bytes: no data keeps this busy for long.
    """
    token = np.int64(0)
    total = np.int64(0)
    most = 1 << bits
    while token < out.size:
        value = np.int64(0)
        length = 0
        while True:
            if at >= data.size:
                return ENDS_EARLY
            byte = np.int64(data[at])
            at += 1
            value |= (byte & 127) << (7 * length)
            length += 1
            if byte < 128:
                break
            if length == NUMBER_BYTES:
                return NOT_A_FREQUENCY
        if value >= most or (length > 1 and byte == 0):
            return NOT_A_FREQUENCY
        if value == 0:
            if at >= data.size:
                return ENDS_EARLY
            run = np.int64(data[at])
            at += 1
            if run < 1 or run > out.size - token:
                return NOT_A_RUN
            token += run
            continue
        out[token] = np.uint32(value)
        total += value
        token += 1
    return at if total == most else NOT_A_SUM


@kernel
def fill_slots(freqs: Any, out: Any) -> None:
    """out[slot] = token << 24 | freq << 12 | slot - start, for a table whose frequencies fill `out`."""
    slot = 0
    for token in range(freqs.size):
        head = np.uint32(np.uint32(token) << np.uint32(24)) | np.uint32(np.uint32(freqs[token]) << np.uint32(12))
        for k in range(freqs[token]):
            out[slot] = np.uint32(head | np.uint32(k))
            slot += 1
