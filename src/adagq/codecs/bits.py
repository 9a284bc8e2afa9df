"""Numbers of a few bits each, packed into bytes, lowest bit first."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.core.errors import PayloadError


def packed_bytes(count: int, width: int) -> int:
    """Return the bytes that `count` numbers of `width` bits take."""
    return -(-count * width // 8)


def pack_bits(numbers: NDArray[Any], width: int) -> NDArray[np.uint8]:
    """Return the numbers, each below 2^width and width at most 16, as bytes.

    >>> pack_bits(np.array([1, 2, 3]), 2)
    array([57], dtype=uint8)
    """
    bits = numbers.astype(np.uint16)[:, None] >> np.arange(width, dtype=np.uint16) & np.uint16(1)
    return np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little")


def unpack_bits(data: NDArray[np.uint8], count: int, width: int) -> NDArray[np.uint16]:
    """Return `count` numbers of `width` bits; `PayloadError` if there are more or fewer bytes than these take."""
    if data.size != (needed := packed_bytes(count, width)):
        raise PayloadError(f"{data.size} bytes for {count} numbers of {width} bits, {needed} are needed")
    bits = np.unpackbits(data, count=count * width, bitorder="little").reshape(count, width).astype(np.uint16)
    numbers: NDArray[np.uint16] = (bits << np.arange(width, dtype=np.uint16)).sum(axis=1, dtype=np.uint16)
    return numbers
