"""Top-k with a memory of its own: what is not sent stays, decayed or with momentum. Payloads are those of Top-k.

    sparseloco   e = decay e + u;  send the largest of e, as many as the byte budget holds;  e -= sent
    dgc          m = momentum m + u;  v += m;  send the largest of v;  m = v = 0 where sent

SparseLoCo (Sarfi et al. 2025) has a decay of 0.95 and 2-bit values in chunks; here values are float16, indices entropy
coded over the whole vector, and k comes from the budget that the controller gives (`topk-fit`). DGC (Lin et al. 2018)
begins with a quarter of the entries and takes a quarter of that with every update of a client, down to `fraction`; its
clipping of gradients is left out: updates are screened at the server.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.sending import decode_own, encoded
from adagq.codecs.topk import TopK, Values, with_entries
from adagq.codecs.wrapping import RESIDUAL, Wrapper
from adagq.core.codec import Arrays, Encoded, LayoutLike
from adagq.core.vectors import FloatVector

MOMENTUM, CALLS = "momentum", "calls"
WARM_UP: Final = 0.25  # the first update's fraction, and what every later one takes of it


@register("sparseloco", examples=lambda: (SparseLoCo(), SparseLoCo(0.01, 1.0, "float32")))
@dataclass(frozen=True, slots=True)
class SparseLoCo(Wrapper):
    """At most `fraction` of the entries, fewer where the budget holds fewer; the residual decays by `decay` a round.

    >>> from adagq.codecs import send
    >>> first = send(SparseLoCo(fraction=0.5, decay=0.5), np.array([1.0, -2.0], np.float32))
    >>> send(SparseLoCo(fraction=0.5, decay=0.5), np.array([0.0, 0.25], np.float32), first.state).received
    array([0.5, 0. ], dtype=float32)
    """

    fraction: float = 0.1
    decay: float = 0.95
    values: Values = "float16"

    def __post_init__(self) -> None:
        self.inner  # checks fraction and values  # noqa: B018
        if not 0.0 <= self.decay <= 1.0:
            raise ValueError(f"decay = {self.decay}, allowed are numbers from 0 to 1")

    @property
    def inner(self) -> TopK:
        """Top-k with as many entries as a payload ever has."""
        return TopK(self.fraction, self.values)

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
        v = finite_vector(vector)
        if RESIDUAL in state:
            v = finite_vector(np.float32(self.decay) * state[RESIDUAL] + v)
        codec = self.inner if budget_bytes is None else within(self.inner, v, budget_bytes)
        payload = codec.encode(v, seed, layout)
        received = decode_own(payload, v.size)
        return encoded(payload, received, {RESIDUAL: v - received}, codec, v)


@register("dgc", examples=lambda: (DGC(0.01), DGC(0.1, 0.0)))
@dataclass(frozen=True, slots=True)
class DGC(Wrapper):
    """Momentum at the client, the largest `fraction` of its running sum is sent and forgotten.

    >>> from adagq.codecs import send
    >>> dgc = DGC(fraction=0.5, momentum=0.5, warm_up=False)
    >>> first = send(dgc, np.array([1.0, -2.0], np.float32))
    >>> first.received, first.state["residual"], first.state["momentum"]
    (array([ 0., -2.], dtype=float32), array([1., 0.], dtype=float32), array([1., 0.], dtype=float32))
    """

    fraction: float = 0.001
    momentum: float = 0.9
    values: Values = "float32"
    warm_up: bool = True

    def __post_init__(self) -> None:
        TopK(self.fraction, self.values)
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"momentum = {self.momentum}, allowed are numbers from 0 to below 1")

    @property
    def inner(self) -> TopK:
        """Top-k with as many entries as a payload ever has."""
        return TopK(self.fraction_of(0), self.values)

    def fraction_of(self, calls: int) -> float:
        """Return the share of the entries that a client sends after so many updates.

        >>> [DGC(0.001).fraction_of(calls) for calls in (0, 1, 2, 3, 4, 5)]
        [0.25, 0.0625, 0.015625, 0.00390625, 0.001, 0.001]
        """
        return max(self.fraction, WARM_UP ** (calls + 1)) if self.warm_up else self.fraction

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
        calls = int(state[CALLS][0]) if CALLS in state else 0
        momentum = np.float32(self.momentum) * state[MOMENTUM] + u if MOMENTUM in state else u.copy()
        v = finite_vector(state[RESIDUAL] + momentum if RESIDUAL in state else u)
        codec = TopK(self.fraction_of(calls), self.values)
        payload = codec.encode(v, seed, layout)
        received = decode_own(payload, v.size)
        sent = received != 0
        kept = {RESIDUAL: v - received, MOMENTUM: np.where(sent, np.float32(0), momentum)}
        return encoded(payload, received, kept | {CALLS: np.array([calls + 1])}, codec, v)


def within(codec: TopK, vector: FloatVector, budget_bytes: int) -> TopK:
    """Return Top-k with the most entries whose predicted payload stays within the budget, at least one.

    >>> within(TopK(1.0, "float16", "plain"), np.zeros(1000, np.float32), 656).kept(1000)
    100
    """
    low, high = 1, max(codec.kept(vector.size), 1)
    while low < high:
        middle = -(-(low + high) // 2)
        size = with_entries(codec, middle, vector.size).rate_curve(vector)[0] / 8
        low, high = (middle, high) if size <= budget_bytes else (low, middle - 1)
    return with_entries(codec, low, vector.size)
