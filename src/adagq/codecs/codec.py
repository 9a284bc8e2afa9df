"""The contract every codec keeps.

A codec is a frozen value that carries its own knobs. `encode` turns a float32 vector into bytes that name their
codec, version and size, so that any receiver decodes them with nothing else:

    payload = codec.encode(vector, seed=7, layout=layout)
    decode(payload)                              # float32 vector, any codec
    decode_into(payload, out, weight=0.05)       # out += weight * vector
    codec.rate_curve(vector, layout)             # predicted payload bits at levels 2^b - 1, b = 1..16

- `len(payload)` is the size; nothing is counted by formula.
- Same vector, knobs and seed: same bytes, on any number of threads.
- A vector with NaN or infinity raises `NonFiniteError` before anything is encoded.
- `decode` never returns a number that is not finite; bytes that are not a payload raise `PayloadError`.
- The input is never written to.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from adagq.vectors import FloatVector, Layout

LEVEL_BITS = 16
MAX_LEVELS = 2**LEVEL_BITS - 1


@runtime_checkable
class Codec(Protocol):
    """A frozen value with knobs; see the module docstring."""

    @property
    def unbiased(self) -> bool:
        """Whether E[decode(encode(v))] = v over seeds."""

    def encode(
        self,
        vector: NDArray[Any],
        seed: int = 0,
        layout: Layout | Sequence[int] | None = None,
        threads: int = 1,
    ) -> bytes: ...

    def rate_curve(self, vector: NDArray[Any], layout: Layout | Sequence[int] | None = None) -> NDArray[np.float64]:
        """Return the predicted payload bits at levels 2^b - 1 for b = 1..16 (constant for codecs without levels)."""
        ...


__all__ = ["LEVEL_BITS", "MAX_LEVELS", "Codec", "FloatVector"]
