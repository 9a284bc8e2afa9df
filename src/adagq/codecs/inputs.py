"""The checks that every `encode` begins with."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.errors import NonFiniteError
from adagq.vectors import FloatVector


def vector_of(vector: NDArray[Any]) -> FloatVector:
    """Return `vector` as a contiguous one-dimensional float32 array (itself, if it is one)."""
    array = np.asarray(vector)
    if array.ndim != 1:
        raise ValueError(f"a codec takes a one-dimensional vector, got shape {array.shape}; flatten it by a Layout")
    if array.dtype != np.float32 and not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"a codec takes floating-point numbers, got {array.dtype}")
    return np.ascontiguousarray(array, np.float32)


def finite_vector(vector: NDArray[Any]) -> FloatVector:
    """Return `vector_of(vector)`; raise `NonFiniteError` if a number is NaN or infinite."""
    array = vector_of(vector)
    bad = array.size - int(np.count_nonzero(np.isfinite(array)))
    if bad:
        first = int(np.argmin(np.isfinite(array)))
        raise NonFiniteError(f"{bad} of {array.size} numbers are not finite, the first at index {first}")
    return array
