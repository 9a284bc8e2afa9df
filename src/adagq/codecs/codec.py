"""The contract every codec keeps.

A codec is a frozen value that carries its own knobs. `encode` turns a float32 vector into bytes that name their
codec, version and size, so that any receiver decodes them with nothing else:

    payload = codec.encode(vector, seed=7, layout=layout)
    decode(payload)                              # float32 vector, any codec
    decode_into(payload, out, weight=0.05)       # out += weight * vector
    codec.rate_curve(vector, layout)             # predicted payload bits at levels 2^b - 1, b = 1..16
    n = codec.encode_into(vector, buffer)        # the same payload in memory that is warm already

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

from adagq.codecs.wire import Out, Writer
from adagq.vectors import Layout

LEVEL_BITS = 16
MAX_LEVELS = 2**LEVEL_BITS - 1

LayoutLike = Layout | Sequence[int] | None


@runtime_checkable
class Codec(Protocol):
    """A frozen value with knobs; see the module docstring."""

    @property
    def unbiased(self) -> bool:
        """Whether E[decode(encode(v))] = v over seeds."""

    def encode(self, vector: NDArray[Any], seed: int = 0, layout: LayoutLike = None, threads: int = 1) -> bytes: ...

    def encode_into(
        self, vector: NDArray[Any], out: Out, seed: int = 0, layout: LayoutLike = None, threads: int = 1
    ) -> int:
        """Write the payload to the beginning of `out` and return its length."""
        ...

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        """Return the predicted payload bits at levels 2^b - 1, b = 1..16 (constant for codecs without levels)."""
        ...


@runtime_checkable
class Fitting(Protocol):
    """A codec with levels that can be chosen to fill a byte budget."""

    def fitted(self, vector: NDArray[Any], budget_bytes: int, layout: LayoutLike = None) -> Codec:
        """Return the codec with the most levels whose predicted payload stays within the budget."""
        ...


class Encoder:
    """`encode` and `encode_into` for codecs that say how to write their frame."""

    __slots__ = ()

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        """Return the filled frame, in `out` if given."""
        raise NotImplementedError

    def encode(self, vector: NDArray[Any], seed: int = 0, layout: LayoutLike = None, threads: int = 1) -> bytes:
        return self.write(vector, seed, layout, threads, None).finish()

    def encode_into(
        self, vector: NDArray[Any], out: Out, seed: int = 0, layout: LayoutLike = None, threads: int = 1
    ) -> int:
        return len(self.write(vector, seed, layout, threads, out).finish())
