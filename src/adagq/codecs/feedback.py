"""Error feedback: what a codec lost is added to the next vector, and never grows without bound.

    v = vector + residual;   sent = c Q(v),   c = <v, Q(v)> / ||Q(v)||²;   residual' = v - sent

`c` is the projection of `v` on what the codec makes of it, so ||residual'||² = (1 - cos²) ||v||² <= ||v||²
for every codec and every draw: a contraction. For an unbiased codec `c` is 1/(1 + NMSE) on average, for Top-k
it is 1. Without it, feedback around an unbiased quantizer whose NMSE is near 1 or above diverges. What is
sent is what the receiver decodes: `v == sent + residual'` to the last bit of float32 rounding.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.inputs import vector_of
from adagq.codecs.qsgd import QSGD
from adagq.codecs.registry import register
from adagq.codecs.sending import decode_own, encoded
from adagq.codecs.topk import TopK
from adagq.codecs.wrapping import RESIDUAL, Wrapper
from adagq.core.codec import Arrays, Codec, Encoded, Fitting, LayoutLike, Leveled, Stateful, levels_of
from adagq.core.vectors import FloatVector, squared_norm

CLOSE: Final = 1e-3  # a shrink nearer to 1 than this is not worth a second encoding


def _examples() -> tuple[Codec, ...]:
    inner = (TopK(0.1), QSGD(1, "vector", "max", "stochastic", "fixed"), QSGD(255, "tensor", "l2", "dither", "entropy"))
    return tuple(ErrorFeedback(codec) for codec in inner)


@register("feedback", examples=_examples)
@dataclass(frozen=True, slots=True)
class ErrorFeedback(Wrapper):
    """A plain codec with error feedback; its state is {"residual": what the last payload lost}.

    >>> from adagq.codecs import TopK, send
    >>> first = send(ErrorFeedback(TopK(0.5)), np.array([1.0, -2.0], np.float32))
    >>> first.received, first.state["residual"]
    (array([ 0., -2.], dtype=float32), array([1., 0.], dtype=float32))
    >>> send(ErrorFeedback(TopK(0.5)), np.array([1.5, -2.0], np.float32), first.state).received
    array([2.5, 0. ], dtype=float32)
    """

    codec: Codec
    decay: float = 1.0  # of the residual, a call: below 1 what is old fades

    def __post_init__(self) -> None:
        if not 0.0 <= self.decay <= 1.0:
            raise ValueError(f"decay = {self.decay}, allowed are numbers from 0 to 1")
        if isinstance(self.codec, Stateful) or not isinstance(self.codec, Codec):
            raise ValueError(f"codec = {self.codec!r}: error feedback needs a plain codec, one without state")

    @property
    def inner(self) -> Codec:
        return self.codec

    @property
    def levels(self) -> int:
        return levels_of(self.codec)

    def with_levels(self, levels: int) -> "ErrorFeedback":
        if not isinstance(self.codec, Leveled):
            raise ValueError(f"levels = {levels}: {type(self.codec).__name__} has no levels")
        return replace(self, codec=self.codec.with_levels(levels))

    def fitted(self, vector: NDArray[Any], budget_bytes: int, layout: LayoutLike = None) -> "ErrorFeedback":
        if not isinstance(self.codec, Fitting):
            return self
        return replace(self, codec=self.codec.fitted(vector, budget_bytes, layout))

    def encode_with_state(
        self,
        vector: FloatVector,
        state: Arrays,
        *,
        seed: int = 0,
        layout: LayoutLike = None,
        reference: FloatVector | None = None,
        budget_bytes: int | None = None,
    ) -> Encoded:
        """Encode vector + residual so that the rest is smaller than both together."""
        v = vector_of(vector)
        if RESIDUAL in state:
            v = v + (state[RESIDUAL] if self.decay == 1.0 else np.float32(self.decay) * state[RESIDUAL])
        codec = self.codec if budget_bytes is None else self.fitted(v, budget_bytes, layout).codec
        payload = codec.encode(v, seed, layout)
        received = decode_own(payload, v.size, reference)
        shrink = _projection(v, received)
        if abs(1 - shrink) > CLOSE:
            payload = codec.encode(np.float32(shrink) * v, seed, layout)
            received = decode_own(payload, v.size, reference)
        residual = v - received
        return encoded(payload, received, {RESIDUAL: residual} if residual.any() else {}, codec, v)


def _projection(vector: FloatVector, received: FloatVector) -> float:
    with np.errstate(over="ignore", invalid="ignore"):  # beyond float32's squares there is no shrink
        energy = squared_norm(received)
        return max(float(np.dot(vector, received)) / energy, 0.0) if energy > 0 else 1.0
