"""Fading feedback: unbiased where the budget allows it, else the largest entries, with a residual that fades.

    v = u + decay e
    v unbiased within the budget, if its error is at most limit * clients times its energy:  e' = 0
    else the sparse code of v:  e' = v - sent

An unbiased code's error averages out over the clients, a sparse code's is late instead: below a tenth of a bit a
parameter late is better. What is late is also stale: with momentum at the server a residual kept whole comes back at
the model long after the step that it belonged to. Fading forgets it over 1 / (1 - decay) rounds (SparseLoCo: 0.95).

The energies of a sparse payload are told for `u` alone: what the residual adds is no news about the round.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.dead_zone import DeadZone
from adagq.codecs.inputs import finite_vector
from adagq.codecs.qsgd import QSGD
from adagq.codecs.registry import register
from adagq.codecs.sending import decode_own, encoded
from adagq.codecs.wrapping import RESIDUAL, Wrapper
from adagq.core.codec import Arrays, Buffer, Codec, Encoded, Fitting, LayoutLike, Leveled, Stateful, levels_of
from adagq.core.vectors import FloatVector, squared_norm


@register("fading", examples=lambda: (Fading(QSGD(15, "tensor", "l2", "dither"), DeadZone()),))
@dataclass(frozen=True, slots=True)
class Fading(Wrapper):
    """`dense` while its error stays within the limit, else `sparse` with a residual that fades by `decay` a round.

    >>> from adagq.codecs import send
    >>> codec = Fading(QSGD(levels=15), DeadZone(), decay=0.5, clients=1)
    >>> v = (1000.0 / np.arange(1, 1001)).astype(np.float32)
    >>> first = send(codec, v, budget_bytes=72)
    >>> int(np.count_nonzero(first.received)), bool(np.allclose(first.received + first.state["residual"], v))
    (40, True)
    """

    dense: Codec
    sparse: Codec
    decay: float = 0.8
    limit: float = 0.1  # of the energy: the error that a mean over `clients` may have
    clients: int = 20  # that the mean is over; the controller tells

    def __post_init__(self) -> None:
        for name in ("dense", "sparse"):
            if isinstance(part := getattr(self, name), Stateful) or not isinstance(part, Codec):
                raise ValueError(f"{name} = {part!r}: must be a plain codec, one without state")
        if not 0.0 <= self.decay <= 1.0:
            raise ValueError(f"decay = {self.decay}, allowed are numbers from 0 to 1")
        if not self.limit >= 0.0 or self.clients < 1:
            raise ValueError(f"limit = {self.limit}, clients = {self.clients}: allowed are limit >= 0, clients >= 1")

    @property
    def inner(self) -> Codec:
        return self.dense

    @property
    def levels(self) -> int:
        return levels_of(self.dense)

    def with_levels(self, levels: int) -> "Fading":
        return replace(self, dense=self.dense.with_levels(levels)) if isinstance(self.dense, Leveled) else self

    def over(self, clients: int) -> "Fading":
        return replace(self, clients=max(clients, 1))

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
        u = finite_vector(vector)
        v = finite_vector(u + np.float32(self.decay) * state[RESIDUAL]) if RESIDUAL in state else u
        sent = self._with(self.dense, v, seed, layout, budget_bytes)
        if budget_bytes is None or sent.error_energy <= self.limit * self.clients * sent.energy:
            return sent
        sent = self._with(self.sparse, v, seed, layout, budget_bytes)
        energy, lost = squared_norm(u), sent.error_energy / sent.energy
        residual = v - sent.received
        return sent._replace(state={RESIDUAL: residual}, energy=energy, error_energy=lost * energy, vector=u)

    def _with(
        self, codec: Codec, vector: FloatVector, seed: int, layout: LayoutLike, budget_bytes: int | None
    ) -> Encoded:
        if budget_bytes is not None and isinstance(codec, Fitting):
            codec = codec.fitted(vector, budget_bytes, layout)
        payload = codec.encode(vector, seed, layout)
        return encoded(payload, decode_own(payload, vector.size), {}, codec, vector)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[Any]:
        return self.dense.rate_curve(vector, layout)

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return max(self.dense.max_bytes(elements, layout), self.sparse.max_bytes(elements, layout))

    def mismatch(self, payload: Buffer, fitted: bool = False) -> str:
        return self.dense.mismatch(payload, fitted) if self.sparse.mismatch(payload, fitted) else ""
