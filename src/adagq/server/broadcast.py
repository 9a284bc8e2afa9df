"""Step 1: the model's step as one payload for all, and who holds which version.

    sent = broadcaster.encode(step, round, layout)       # what clients will decode
    broadcaster.sync(client, round, model)               # the message that brings this client up to date

Memory does not grow with the number of clients: three vectors, the latest payloads, four bytes a client.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from adagq.codecs import ErrorFeedback, Float32, send
from adagq.core.codec import Arrays, Codec, Stateful
from adagq.core.messages import Broadcast, Sync
from adagq.core.seeds import derive
from adagq.core.vectors import FloatVector, Layout
from adagq.server.model import GlobalModel

NOTHING_SENT = Broadcast()
NEVER = -1  # version of a client that holds no model


class Versions:
    """The version that each client holds, NEVER for those that hold none: four bytes a client.

    >>> versions = Versions()
    >>> versions[3] = 7
    >>> versions[3], versions[2], versions[100] == NEVER
    (7, -1, True)
    """

    def __init__(self, column: Iterable[int] = ()) -> None:
        self._column = np.array(column if isinstance(column, np.ndarray) else list(column), np.int32)
        self._clients = self._column.size  # the column has room for more

    def __getitem__(self, client: int) -> int:
        return int(self._column[client]) if 0 <= client < self._clients else NEVER

    def __setitem__(self, client: int, version: int) -> None:
        if client >= self._column.size:
            self._column = np.append(self._column, np.full(client + 1, NEVER, np.int32))
        self._clients = max(self._clients, client + 1)
        self._column[client] = version

    @property
    def column(self) -> NDArray[np.int32]:
        """All of them, as a checkpoint keeps them."""
        return self._column[: self._clients]


@dataclass
class Broadcaster:
    """Encodes each step once with `codec`; what the codec lost stays in its state and is added to the next step.

    A client that missed rounds gets the steps it missed if they are smaller than the model, else the model.
    """

    codec: Codec
    seed: int
    state: Arrays = field(default_factory=dict)  # the codec's error feedback
    versions: Versions = field(default_factory=Versions)  # what each client holds
    payloads: deque[bytes] = field(default_factory=deque)  # the latest steps, together smaller than a full model
    latest: Broadcast = NOTHING_SENT
    reference: FloatVector | None = None  # the latest step as clients decode it: what their payloads may build on
    _encoded: dict[str, tuple[int, bytes]] = field(default_factory=dict)  # with its version, when first asked for

    def encode(self, step: FloatVector, round: int, layout: Layout, budget_bytes: int | None = None) -> FloatVector:
        """Keep the payload of this step and return what clients decode from it."""
        encoded = send(
            self.codec if isinstance(self.codec, Stateful) else ErrorFeedback(self.codec),
            step,
            self.state,
            seed=derive(self.seed, "downlink", round),
            layout=layout,
            budget_bytes=budget_bytes,
        )
        self.reference = encoded.received
        self.state = encoded.state
        self.payloads.append(encoded.payload)
        while len(self.payloads) > 1 and sum(map(len, self.payloads)) > 4 * layout.elements:
            self.payloads.popleft()
        self.latest = Broadcast(len(encoded.payload), encoded.energy, encoded.error_energy)
        return encoded.received

    def sync(self, client: int, round: int, model: GlobalModel) -> Sync:
        """Return the message that brings `client` to the present version."""
        base = self.versions[client]
        behind = model.version - base
        if base == NEVER or behind > len(self.payloads):
            base, payloads = NEVER, [self._float32("vector", model)]
        else:
            payloads = list(self.payloads)[len(self.payloads) - behind :]
        sends_buffers = behind > 0 and model.buffers.size > 0
        return Sync(
            client=client,
            round=round,
            version=model.version,
            base_version=base,
            payloads=tuple(payloads),
            buffers=self._float32("buffers", model) if sends_buffers else b"",
            seed=self.seed,
        )

    def acknowledge(self, client: int, version: int) -> None:
        """Note that `client` holds this version."""
        self.versions[client] = version

    def _float32(self, what: str, model: GlobalModel) -> bytes:
        version, payload = self._encoded.get(what, (NEVER, b""))
        if version != model.version:
            payload = Float32().encode(getattr(model, what))
            self._encoded[what] = model.version, payload
        return payload
