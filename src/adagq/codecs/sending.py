"""`send`: the one way by which clients and server encode."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.decoding import decode
from adagq.core.codec import Arrays, Codec, Encoded, Fitting, LayoutLike, Stateful
from adagq.core.vectors import FloatVector, squared_norm

NO_STATE: Final[Mapping[str, NDArray[Any]]] = MappingProxyType({})


def send(
    codec: Codec,
    vector: FloatVector,
    state: Arrays = NO_STATE,
    *,
    seed: int = 0,
    layout: LayoutLike = None,
    reference: FloatVector | None = None,
    budget_bytes: int | None = None,
) -> Encoded:
    """Encode `vector`, within the budget if the codec can be fitted; keep `.state` for the next call.

    >>> from adagq.codecs import Float32
    >>> send(Float32(), np.array([3.0, -4.0], np.float32)).energy
    25.0
    """
    if isinstance(codec, Stateful):
        return codec.encode_with_state(
            vector, state, seed=seed, layout=layout, reference=reference, budget_bytes=budget_bytes
        )
    if budget_bytes is not None and isinstance(codec, Fitting):
        codec = codec.fitted(vector, budget_bytes, layout)
    payload = codec.encode(vector, seed, layout)
    received = decode_own(payload, vector.size, reference)
    return encoded(payload, received, {}, codec, vector)


def decode_own(payload: bytes, elements: int, reference: FloatVector | None = None) -> FloatVector:
    """Decode a payload that this process has just made: as long as it is, at any number of elements."""
    return decode(payload, elements, max_bytes=len(payload), reference=reference)


def encoded(payload: bytes, received: FloatVector, state: Arrays, codec: Codec, vector: FloatVector) -> Encoded:
    """Return the result of a call, with its energies."""
    with np.errstate(over="ignore", invalid="ignore"):  # an energy beyond float32 is infinite, and refused as such
        energy, error_energy = squared_norm(vector), squared_norm(received - vector)
    return Encoded(payload, received, state, codec, energy, error_energy, vector)
