"""Error feedback: what a codec lost is added to the next vector, and never grows without bound.

    v = vector + residual;   sent = c Q(v),   c = <v, Q(v)> / ||Q(v)||²;   residual' = v - sent

`c` is the projection of `v` on what the codec makes of it, so ||residual'||² = (1 - cos²) ||v||² <= ||v||²
for every codec and every draw: a contraction. For an unbiased codec `c` is 1/(1 + NMSE) on average, for Top-k
it is 1. Without it, feedback around an unbiased quantizer whose NMSE is near 1 or above diverges. What is
sent is what the receiver decodes: `v == sent + residual'` to the last bit of float32 rounding.
"""

from typing import NamedTuple

import numpy as np

from adagq.codecs import Codec, decode
from adagq.vectors import FloatVector, Layout


class Sent(NamedTuple):
    """A payload, the vector its receiver decodes, and what is left for the next time."""

    payload: bytes
    vector: FloatVector
    residual: FloatVector


def send(codec: Codec, vector: FloatVector, seed: int, layout: Layout) -> Sent:
    """Encode `vector` (the residual already added) so that the rest is smaller than the vector.

    >>> from adagq.codecs import Float32
    >>> v = np.array([1.0, -2.0], np.float32)
    >>> send(Float32(), v, 0, Layout.of_sizes([2])).residual
    array([0., 0.], dtype=float32)
    """
    payload = codec.encode(vector, seed, layout)
    received = decode(payload)
    shrink = _projection(vector, received)
    if abs(1 - shrink) > 1e-3:
        payload = codec.encode(np.float32(shrink) * vector, seed, layout)
        received = decode(payload)
    return Sent(payload, received, vector - received)


def _projection(vector: FloatVector, received: FloatVector) -> float:
    energy = squared_norm(received)
    return max(float(np.dot(vector, received)) / energy, 0.0) if energy > 0 else 1.0


def squared_norm(vector: FloatVector) -> float:
    """Return ||vector||² (a plain float; NaN if the vector holds one)."""
    return float(np.dot(vector, vector))
