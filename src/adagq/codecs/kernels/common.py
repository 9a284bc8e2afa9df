"""The decorator, the counter-based random numbers, and the block size that the kernels share."""

from typing import Any

import numba
import numpy as np

from adagq.seeds import derive

BLOCK = 2048  # elements in one block: 64 lanes of 32 values, 8 kB of float32

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}

_njit: Any = numba.njit

kernel = _njit(**_OPTIONS)
# Inner loops that allocate nothing: without reference counting, which Numba otherwise leaves inside branches.
leaf = _njit(**_OPTIONS, _nrt=False)
inline = _njit(**_OPTIONS, _nrt=False, forceinline=True)

GOLDEN = np.uint32(0x9E3779B9)
MIX1 = np.uint32(0x7FEB352D)
MIX2 = np.uint32(0x846CA68B)


def key_of(seed: int) -> np.uint32:
    """Return the 32-bit key of the random numbers that belong to `seed`."""
    return np.uint32(derive(seed, "codec") & 0xFFFFFFFF)


@inline
def hash32(index: Any, key: Any) -> Any:
    """Mix index and key into 32 uniform bits (two rounds of multiply and xor-shift, after "lowbias32")."""
    x = np.uint32(np.uint32(index) * GOLDEN + key)
    x = np.uint32(x ^ (x >> np.uint32(16)))
    x = np.uint32(x * MIX1)
    x = np.uint32(x ^ (x >> np.uint32(15)))
    x = np.uint32(x * MIX2)
    return np.uint32(x ^ (x >> np.uint32(16)))
