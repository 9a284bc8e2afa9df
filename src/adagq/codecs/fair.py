"""Top-k whose server chooses (Han, Wang and Leung 2020), and the broadcast of what it chose.

    v = u + e;   sent = the largest entries of v;   e' = v - sent, and what the server did not choose comes back to e

The server takes the same number of entries of every client, as many as fit into k (the aggregate "fair"), and sends
them to all. A client sees in the last aggregate which of its entries were chosen: those with a number other than 0. One
that missed a round judges by a later aggregate. `Nonzeros` is the broadcast: what is not 0, at most a share of the
entries. Payloads are Top-k's.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.codec import Encoder
from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.sending import decode_own, encoded
from adagq.codecs.topk import TopK, Values, with_entries
from adagq.codecs.wrapping import RESIDUAL, Wrapper
from adagq.codecs.writing import Writer
from adagq.core.codec import Arrays, Buffer, Encoded, LayoutLike, Out
from adagq.core.vectors import FloatVector

SENT = "sent"


@register("fair-topk", examples=lambda: (FairTopK(), FairTopK(0.01, "float16")))
@dataclass(frozen=True, slots=True)
class FairTopK(Wrapper):
    """Top-k with error feedback that waits for the server's choice.

    >>> from adagq.codecs import send
    >>> codec, aggregate = FairTopK(fraction=0.5), np.array([0.0, 0.0, 0.0, 1.0], np.float32)
    >>> first = send(codec, np.array([3.0, 1.0, 0.0, 2.0], np.float32))
    >>> first.received, first.state["residual"]
    (array([3., 0., 0., 2.], dtype=float32), array([0., 1., 0., 0.], dtype=float32))
    >>> send(codec, np.zeros(4, np.float32), first.state, reference=aggregate).received  # the 3 was not chosen
    array([3., 1., 0., 0.], dtype=float32)
    """

    fraction: float = 0.1
    values: Values = "float32"

    def __post_init__(self) -> None:
        self.inner  # checks fraction and values  # noqa: B018

    @property
    def inner(self) -> TopK:
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
            v = finite_vector(v + state[RESIDUAL])
        if SENT in state and reference is not None and reference.any():
            v = finite_vector(v + np.where(reference == 0, state[SENT], np.float32(0)))
        payload = self.inner.encode(v, seed, layout)
        received = decode_own(payload, v.size)
        return encoded(payload, received, {RESIDUAL: v - received, SENT: received}, self.inner, v)

    def undelivered(self, state: Arrays, payload: bytes, reference: FloatVector | None = None) -> Arrays:
        """Return the state after a payload that never arrived: all of it goes with the next one."""
        return {RESIDUAL: state[RESIDUAL] + state[SENT]}


@register("nonzeros", examples=lambda: (Nonzeros(), Nonzeros(0.01, "float16")))
@dataclass(frozen=True, slots=True)
class Nonzeros(Encoder):
    """The entries other than 0, at most the largest `fraction`: nothing is lost of a mean of sparse updates.

    >>> from adagq.codecs import decode
    >>> decode(Nonzeros(fraction=0.5).encode(np.array([0.0, 3.0, 0.0, 0.0], np.float32)))
    array([0., 3., 0., 0.], dtype=float32)
    """

    fraction: float = 1.0
    values: Values = "float32"

    def __post_init__(self) -> None:
        self.most  # checks fraction and values  # noqa: B018

    @property
    def most(self) -> TopK:
        """Top-k with as many entries as a payload ever has."""
        return TopK(self.fraction, self.values)

    @property
    def unbiased(self) -> bool:
        return False

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        x = finite_vector(vector)
        kept = min(max(int(np.count_nonzero(x)), 1), self.most.kept(x.size))
        return with_entries(self.most, kept, x.size).write(x, seed, layout, threads, out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        kept = min(max(int(np.count_nonzero(vector)), 1), self.most.kept(vector.size))
        return with_entries(self.most, kept, vector.size).rate_curve(vector, layout)

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return self.most.max_bytes(elements, layout)

    def mismatch(self, payload: Buffer, fitted: bool = False) -> str:
        return self.most.mismatch(payload, fitted)
