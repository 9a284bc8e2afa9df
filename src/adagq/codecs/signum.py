"""Signs of a momentum (Bernstein et al. 2018, 2019): a bit an entry, all of one magnitude, the method's own rate.

    m = momentum m + u;   sent = rate sign(m)

The magnitude of an update is thrown away, so `rate` says how far one vote moves the model; the server takes the
majority of the signs (the aggregate "majority"). There is no error feedback. Payloads are SignSGD's.
"""

from dataclasses import dataclass

import numpy as np

from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.sending import decode_own, encoded
from adagq.codecs.signs import SignSGD
from adagq.codecs.wrapping import Wrapper
from adagq.core.codec import Arrays, Encoded, LayoutLike
from adagq.core.vectors import FloatVector

MOMENTUM = "momentum"


@register("signum", examples=lambda: (Signum(), Signum(0.5, 0.0)))
@dataclass(frozen=True, slots=True)
class Signum(Wrapper):
    """The signs of a running sum of the updates, each times `rate`.

    >>> from adagq.codecs import send
    >>> first = send(Signum(rate=0.5, momentum=0.5), np.array([4.0, -1.0], np.float32))
    >>> send(Signum(rate=0.5, momentum=0.5), np.array([-1.0, -1.0], np.float32), first.state).received
    array([ 0.5, -0.5], dtype=float32)
    """

    rate: float = 0.001
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not 0.0 < self.rate < 1e6:
            raise ValueError(f"rate = {self.rate}, must be a number above 0")
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"momentum = {self.momentum}, allowed are numbers from 0 to below 1")

    @property
    def inner(self) -> SignSGD:
        return SignSGD()

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
        m = finite_vector(vector)
        if MOMENTUM in state:
            m = finite_vector(np.float32(self.momentum) * state[MOMENTUM] + m)
        voted = np.copysign(np.float32(self.rate), m) if m.any() else np.zeros_like(m)
        payload = self.inner.encode(voted, seed, layout)
        return encoded(payload, decode_own(payload, m.size), {MOMENTUM: m.copy()}, self.inner, m)

    def undelivered(self, state: Arrays, payload: bytes, reference: FloatVector | None = None) -> Arrays:
        """Return the state after a payload that never arrived: the momentum knows the update already."""
        return state
