"""What the server does: add up updates as they arrive, and send the aggregate back (steps 1 and 6).

    aggregate = Aggregate(layout);  aggregate.add(update) …   # payloads are decoded into a sum and forgotten
    downlink.step(*aggregate.mean(), round)                   # w <- w - decode(payload): what clients will hold
    downlink.sync(client, round)                              # the message that brings this client up to date

Memory does not grow with the number of clients: two vectors here, three there, an integer per client.
"""

import math
import os
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from adagq.codecs import Codec, Fitting, Float32, decode, decode_into
from adagq.errors import PayloadError
from adagq.feedback import send, squared_norm
from adagq.messages import Broadcast, Sync, Update
from adagq.seeds import derive
from adagq.vectors import FloatVector, Layout

NEVER = -1  # version of a client that holds no model


class Aggregate:
    """The weighted mean `sum_i p_i Q(u_i)` over what arrived, `p_i` the share of the examples.

    Threads share out the elements of an update, not the updates: each sum is made in the order of arrival, so its
    bits do not depend on how many there are. 0 threads: one per core.
    """

    def __init__(self, layout: Layout, threads: int = 0) -> None:
        self._threads = threads or len(os.sched_getaffinity(0))
        self._vector = np.zeros(layout.elements, np.float32)
        self._buffers = np.zeros(layout.buffer_elements, np.float32)
        self._examples = 0

    def add(self, update: Update) -> None:
        """Add one update; a payload that may not be decoded raises `PayloadError` and changes nothing."""
        if update.examples <= 0:
            raise PayloadError(f"client {update.client}: {update.examples} examples, at least 1 is needed")
        weight = float(update.examples)
        buffers = np.zeros_like(self._buffers)
        if update.buffers or buffers.size:
            decode_into(update.buffers, buffers, weight)
        decode_into(update.payload, self._vector, weight, self._threads)
        self._buffers += buffers
        self._examples += update.examples

    def mean(self) -> tuple[FloatVector, FloatVector]:
        """Return the mean update and the mean buffers; the sums are used up."""
        scale = np.float32(1 / self._examples)
        self._vector *= scale
        self._buffers *= scale
        return self._vector, self._buffers


def checked_norm(update: Update, layout: Layout, largest: float = math.inf) -> float:
    """Return the norm of what the payload decodes to; one that is too large raises `PayloadError`.

    A norm that float32 cannot square is too large in any case: such an update would ruin the sum.
    """
    norm = math.sqrt(_energy(decode(update.payload, layout.elements)))
    if not norm <= largest or not math.isfinite(norm):
        raise PayloadError(f"norm {norm:.4g}, at most {largest:.4g} is allowed")
    if update.buffers and not usable(decode(update.buffers, layout.buffer_elements)):
        raise PayloadError("buffers too large for float32")
    return norm


def usable(vector: FloatVector) -> bool:
    """Whether all is finite, and its energy too."""
    return math.isfinite(_energy(vector))


def _energy(vector: FloatVector) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return squared_norm(vector)


@dataclass
class Downlink:
    """The server's model, and who holds which version of it.

    The aggregate is encoded once a round with `codec`; what the codec lost stays in `residual` and is added
    to the next aggregate. The server applies what it sent, so its model is the clients' model, bit for bit. A
    client that missed rounds gets the aggregates it missed if they are smaller than the model, else the
    model.
    """

    layout: Layout
    codec: Codec
    seed: int
    vector: FloatVector
    buffers: FloatVector
    version: int = 0
    residual: FloatVector | None = None
    versions: dict[int, int] = field(default_factory=dict)  # what each client holds
    payloads: deque[bytes] = field(default_factory=deque)  # the latest aggregates, together smaller than a full model
    _encoded: dict[str, bytes] = field(default_factory=dict)  # of this version, when first asked for

    def step(self, mean: FloatVector, buffers: FloatVector, round: int, budget_bytes: int | None = None) -> Broadcast:
        """Move the model by the mean update and keep the payload that moves the clients the same way."""
        if self.residual is not None:
            mean = mean + self.residual
        codec = self.codec
        if budget_bytes is not None and isinstance(codec, Fitting):
            codec = codec.fitted(mean, budget_bytes, self.layout)
        payload, sent, rest = send(codec, mean, derive(self.seed, "downlink", round), self.layout)
        self.residual = rest if rest.any() else None
        self.vector = self.vector - sent
        self.buffers = buffers
        self.version += 1
        self._encoded.clear()
        self.payloads.append(payload)
        while len(self.payloads) > 1 and sum(map(len, self.payloads)) > 4 * self.layout.elements:
            self.payloads.popleft()
        return Broadcast(len(payload), squared_norm(mean), squared_norm(rest))

    def sync(self, client: int, round: int) -> Sync:
        """Return the message that brings `client` to the present version."""
        base = self.versions.get(client, NEVER)
        behind = self.version - base
        if base == NEVER or behind > len(self.payloads):
            base, payloads = NEVER, [self._float32("vector")]
        else:
            payloads = list(self.payloads)[len(self.payloads) - behind :]
        sends_buffers = behind > 0 and self.buffers.size > 0
        return Sync(
            client=client,
            round=round,
            version=self.version,
            base_version=base,
            payloads=tuple(payloads),
            buffers=self._float32("buffers") if sends_buffers else b"",
            seed=self.seed,
        )

    def acknowledge(self, client: int) -> None:
        """Note that `client` now holds the present version."""
        self.versions[client] = self.version

    def _float32(self, what: str) -> bytes:
        if what not in self._encoded:
            self._encoded[what] = Float32().encode(getattr(self, what))
        return self._encoded[what]
