"""What codecs share that keep state and send payloads of another codec."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.decoding import decode
from adagq.codecs.sending import NO_STATE
from adagq.codecs.writing import copy_into
from adagq.core.codec import Arrays, Buffer, Codec, Encoded, LayoutLike, Out
from adagq.core.vectors import FloatVector

RESIDUAL: Final = "residual"


class Wrapper:
    """Everything but `inner`, the codec whose payloads these are, and `encode_with_state`."""

    __slots__ = ()

    @property
    def inner(self) -> Codec:
        raise NotImplementedError

    @property
    def unbiased(self) -> bool:
        return False

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
        raise NotImplementedError

    def encode(self, vector: NDArray[Any], seed: int = 0, layout: LayoutLike = None, threads: int = 1) -> bytes:
        return self.encode_with_state(vector, NO_STATE, seed=seed, layout=layout).payload

    def encode_into(
        self, vector: NDArray[Any], out: Out, seed: int = 0, layout: LayoutLike = None, threads: int = 1
    ) -> int:
        return copy_into(self.encode(vector, seed, layout, threads), out)

    def undelivered(self, state: Arrays, payload: bytes, reference: FloatVector | None = None) -> Arrays:
        """Return the state after a payload that never arrived: all of it goes with the next one."""
        return undelivered(state, payload, reference)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return self.inner.rate_curve(vector, layout)

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return self.inner.max_bytes(elements, layout)

    def mismatch(self, payload: Buffer, fitted: bool = False) -> str:
        return self.inner.mismatch(payload, fitted)


def undelivered(state: Arrays, payload: bytes, reference: FloatVector | None = None) -> Arrays:
    """Return the state with what a payload held put back into the residual."""
    received = decode(payload, reference=reference)
    return {**state, RESIDUAL: state[RESIDUAL] + received if RESIDUAL in state else received}
