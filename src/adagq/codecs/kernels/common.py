"""The decorator, the counter-based random numbers, and the block size that the kernels share."""

from typing import Any

import numba
import numpy as np

from adagq.codecs.kernels.cache import cached_here
from adagq.core.seeds import derive

BLOCK = 2048  # elements in one block: 64 lanes of 32 values, 8 kB of float32

_njit: Any = numba.njit


def _compiled(**options: Any) -> Any:
    """Return a decorator that compiles a function when it is first called, or loads it from the cache."""

    def decorate(function: Any) -> Any:
        with cached_here() as cache:
            return _njit(**options, cache=cache, nogil=True, boundscheck=False, error_model="numpy")(function)

    return decorate


kernel = _compiled()
# Inner loops that allocate nothing: without reference counting, which Numba otherwise leaves inside branches.
leaf = _compiled(_nrt=False)
inline = _compiled(_nrt=False, forceinline=True)

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
