"""The weighted mean of the updates: payloads are decoded into a running sum and forgotten.

Updates that have arrived and wait for their turn may be decoded ahead, one thread each, while others are added up or
clients train; they are added in the same order, so the sum has the same bits.
"""

import math
from concurrent.futures import Future
from typing import Final

import numpy as np

from adagq.codecs import decode, decode_into
from adagq.codecs.parallel import background
from adagq.core.errors import PayloadError
from adagq.core.machine import cores
from adagq.core.messages import Update
from adagq.core.vectors import FloatVector, Layout, squared_norm

MOST_AHEAD: Final = 16 * 2**20  # elements: of a larger model each vector that waits would cost too much memory


class Aggregate:
    """The weighted mean `sum_i p_i Q(u_i)` over what arrived, `p_i` the share of the examples.

    Threads share out the elements of an update, not the updates: each sum is made in the order of arrival, so its
    bits do not depend on how many there are. 0 threads: one per core.
    """

    def __init__(self, layout: Layout, threads: int = 0) -> None:
        self._threads = threads or cores()
        self._vector = np.zeros(layout.elements, np.float32)
        self._scratch: FloatVector | None = None
        self._examples = 0
        self._ahead: dict[int, Future[FloatVector]] = {}  # client -> its update, decoded or being decoded
        self._spare: list[FloatVector] = []  # memory for them
        self.reference: FloatVector | None = None  # the last broadcast step, for payloads that build on it

    @property
    def examples(self) -> int:
        return self._examples

    def decode_ahead(self, update: Update, max_bytes: int | None = None) -> None:
        """Begin to decode an update that will be added later; as many at once as there are threads."""
        if self._threads > 1 and len(self._ahead) < self._threads and self._vector.size <= MOST_AHEAD:
            into = self._spare.pop() if self._spare else np.empty_like(self._vector)
            self._ahead[update.client] = background(self._threads).submit(
                _decoded, update.payload, into, 1, max_bytes, self.reference
            )

    def add(self, update: Update, max_bytes: int | None = None, discount: float = 1.0) -> None:
        """Add one update; a payload that may not be decoded raises `PayloadError` and changes nothing.

        With a discount it counts that much of itself, while the mean is still over all of its examples.
        """
        weight = discount * _weight(update)
        decode_into(update.payload, self._vector, weight, self._threads, max_bytes=max_bytes, reference=self.reference)
        self._examples += update.examples

    def add_clipped(
        self, update: Update, largest: float = math.inf, max_bytes: int | None = None, discount: float = 1.0
    ) -> float:
        """Add one update, scaled down to the norm `largest` if it is larger; return the norm that it came with.

        A norm that float32 cannot square raises `PayloadError`: such an update would ruin the sum.
        """
        weight = discount * _weight(update)
        begun = self._ahead.pop(update.client, None)
        if begun is not None:
            vector = begun.result()
        else:
            if self._scratch is None:
                self._scratch = np.empty_like(self._vector)
            vector = _decoded(update.payload, self._scratch, self._threads, max_bytes, self.reference)
        norm = math.sqrt(_energy(vector))
        if not math.isfinite(norm):
            raise PayloadError("its norm is too large for float32")
        vector *= np.float32(weight * min(1.0, largest / norm) if norm > 0 else weight)
        self._vector += vector
        if begun is not None:
            self._spare.append(vector)
        self._examples += update.examples
        return norm

    def mean(self) -> FloatVector:
        """Return the mean update; the sum is used up."""
        self._vector *= np.float32(1 / self._examples)
        return self._vector


def _decoded(
    payload: bytes, into: FloatVector, threads: int, max_bytes: int | None, reference: FloatVector | None
) -> FloatVector:
    into[:] = 0
    decode_into(payload, into, 1.0, threads, max_bytes=max_bytes, reference=reference)
    return into


def norm_of(
    update: Update, layout: Layout, max_bytes: int | None = None, reference: FloatVector | None = None
) -> float:
    """Return the norm of what the payload decodes to; inf where float32 cannot square it."""
    vector = decode(update.payload, layout.elements, max_bytes=max_bytes, reference=reference)
    if vector.size != layout.elements:
        raise PayloadError(f"payload holds {vector.size} elements, {layout.elements} are expected")
    energy = _energy(vector)
    return math.sqrt(energy) if math.isfinite(energy) else math.inf


def usable(vector: FloatVector) -> bool:
    """Whether all is finite, and its energy too."""
    return math.isfinite(_energy(vector))


def _weight(update: Update) -> float:
    if update.examples <= 0:
        raise PayloadError(f"client {update.client}: {update.examples} examples, at least 1 is needed")
    return float(update.examples)


def _energy(vector: FloatVector) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return squared_norm(vector)
