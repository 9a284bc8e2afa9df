"""Either: of a dense and a sparse codec the one that leaves less behind within the byte budget.

Below half a bit a parameter an unbiased code is mostly noise and a sparse one loses less; above a bit it is the other
way round. Where the two meet depends on the vector, so both are tried: what counts is the share of the energy that is
left behind after projection, 1 - cos^2(v, Q(v)), which is what error feedback has to carry on.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.dead_zone import DeadZone
from adagq.codecs.inputs import vector_of
from adagq.codecs.qsgd import QSGD
from adagq.codecs.registry import register
from adagq.codecs.sending import decode_own
from adagq.codecs.writing import copy_into
from adagq.core.codec import Buffer, Codec, Fitting, LayoutLike, Leveled, Out, levels_of
from adagq.core.vectors import FloatVector, squared_norm

PLENTY: Final = 1.5  # bits a parameter: from here on the dense code is taken untried


@register("either", examples=lambda: (Either(QSGD(15, "tensor", "l2", "dither"), DeadZone()),))
@dataclass(frozen=True, slots=True)
class Either:
    """The codec `dense`, or `sparse` where that loses less of a vector within a budget; without one `dense`.

    >>> either = Either(QSGD(levels=15), DeadZone(0.1))
    >>> v = np.where(np.arange(1000) % 100 == 0, 1, 1e-3).astype(np.float32)
    >>> type(either.fitted(v, budget_bytes=100)).__name__, type(either.fitted(v, budget_bytes=1000)).__name__
    ('DeadZone', 'QSGD')
    """

    dense: Codec
    sparse: Codec

    @property
    def unbiased(self) -> bool:
        return False

    @property
    def levels(self) -> int:
        return levels_of(self.dense)

    def with_levels(self, levels: int) -> "Either":
        dense = self.dense.with_levels(levels) if isinstance(self.dense, Leveled) else self.dense
        return Either(dense, self.sparse)

    def fitted(self, vector: NDArray[Any], budget_bytes: int, layout: LayoutLike = None) -> Codec:
        x = vector_of(vector)
        dense = _fitted(self.dense, x, budget_bytes, layout)
        if 8 * budget_bytes >= PLENTY * x.size:
            return dense
        sparse = _fitted(self.sparse, x, budget_bytes, layout)
        return min(sparse, dense, key=lambda codec: remainder(x, decode_own(codec.encode(x, 0, layout), x.size)))

    def encode(self, vector: NDArray[Any], seed: int = 0, layout: LayoutLike = None, threads: int = 1) -> bytes:
        return self.dense.encode(vector, seed, layout, threads)

    def encode_into(
        self, vector: NDArray[Any], out: Out, seed: int = 0, layout: LayoutLike = None, threads: int = 1
    ) -> int:
        return copy_into(self.encode(vector, seed, layout, threads), out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return self.dense.rate_curve(vector, layout)

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return max(self.dense.max_bytes(elements, layout), self.sparse.max_bytes(elements, layout))

    def mismatch(self, payload: Buffer, fitted: bool = False) -> str:
        return self.dense.mismatch(payload, fitted) if self.sparse.mismatch(payload, fitted) else ""


def remainder(vector: FloatVector, received: FloatVector) -> float:
    """Return the share of the vector's energy that no multiple of `received` holds: 1 - cos^2."""
    energies = squared_norm(vector) * squared_norm(received)
    return 1.0 - float(np.dot(vector, received)) ** 2 / energies if energies > 0.0 else 1.0


def _fitted(codec: Codec, vector: FloatVector, budget_bytes: int, layout: LayoutLike) -> Codec:
    return codec.fitted(vector, budget_bytes, layout) if isinstance(codec, Fitting) else codec
