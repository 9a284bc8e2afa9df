"""Clips every tensor to a few of its standard deviations before another codec encodes it, as TernGrad does.

    x_j -> sign(x_j) min(|x_j|, sigmas * std(tensor of x_j))

A scale that follows the largest entry is ruled by outliers: at one level most entries would be sent as 0. What is cut
off is a bias. Payloads are those of the codec inside.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import adagq.codecs.spans as spans
from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.signs import TernGrad
from adagq.core.codec import Buffer, Codec, LayoutLike, Out, Stateful
from adagq.core.vectors import FloatVector


def _examples() -> tuple[Codec, ...]:
    return (Clipped(TernGrad("tensor")), Clipped(TernGrad(), 1.0))


@register("clipped", examples=_examples)
@dataclass(frozen=True, slots=True)
class Clipped:
    """A plain codec behind a clip at `sigmas` standard deviations of each tensor.

    >>> Clipped(TernGrad(), 1.0).clip(np.array([3.0, -1.0, -1.0, -1.0], np.float32), [4])
    array([ 1.7320508, -1.       , -1.       , -1.       ], dtype=float32)
    """

    codec: Codec
    sigmas: float = 2.5

    def __post_init__(self) -> None:
        if isinstance(self.codec, Stateful) or not isinstance(self.codec, Codec):
            raise ValueError(f"codec = {self.codec!r}: clipping needs a plain codec, one without state")
        if not 0.0 < self.sigmas < float("inf"):
            raise ValueError(f"sigmas = {self.sigmas}, must be a number above 0")

    @property
    def unbiased(self) -> bool:
        return False

    def clip(self, vector: NDArray[Any], layout: LayoutLike = None) -> FloatVector:
        """Return the vector with its outliers cut; without a layout it is one tensor."""
        x = finite_vector(vector)
        if not x.size:
            return x
        sizes = spans.tensor_sizes([x.size] if layout is None else layout, x.size)
        starts = np.cumsum(sizes) - sizes
        wide = x.astype(np.float64)
        means = np.add.reduceat(wide, starts) / sizes
        variances = np.add.reduceat((wide - np.repeat(means, sizes)) ** 2, starts) / sizes
        # A tensor without spread, of one entry for example, has no outliers.
        most = np.where(variances > 0, self.sigmas * np.sqrt(variances), np.inf)
        limit = np.minimum(np.repeat(most, sizes), np.finfo(np.float32).max)
        return np.clip(wide, -limit, limit).astype(np.float32)

    def encode(self, vector: NDArray[Any], seed: int = 0, layout: LayoutLike = None, threads: int = 1) -> bytes:
        return self.codec.encode(self.clip(vector, layout), seed, layout, threads)

    def encode_into(
        self, vector: NDArray[Any], out: Out, seed: int = 0, layout: LayoutLike = None, threads: int = 1
    ) -> int:
        return self.codec.encode_into(self.clip(vector, layout), out, seed, layout, threads)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return self.codec.rate_curve(self.clip(vector, layout), layout)

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return self.codec.max_bytes(elements, layout)

    def mismatch(self, payload: Buffer, fitted: bool = False) -> str:
        return self.codec.mismatch(payload, fitted)
