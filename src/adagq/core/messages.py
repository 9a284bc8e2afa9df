"""What travels between server and clients, and what the server writes down of it.

One round in the paper's six steps, and the message of each:

    1  server -> client   Sync      the aggregate of the last round (or the whole model), what to probe
    2  client -> server   Report    losses on the client's held-out samples
    3b server             Facts     everything known when the payloads of this round are decided
    4  server -> client   Task      how to train and how to send
    5  client -> server   Update    the encoded update, and what the client measured while encoding it
    6  server             Receipt   what the server keeps of an Update once the payload is added up
       server             Incident  a client that did not deliver, or what it delivered and may not be used

Sync and Task may travel together, and so may Report and Update. All are frozen; there is one message object per client,
so nothing leaks from one client to another. Seconds are measured by the backend (a virtual clock or a real one), never
here. Byte counts are `len(payload)`.
"""

from dataclasses import dataclass
from typing import Literal

from adagq.core.codec import Codec

NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Sync:
    """Step 1. Moves the client's model from `base_version` to `version`; a full model has base -1.

    `payloads` are the aggregates of the versions after the base, oldest first (one for a client that took
    part in the last round, several where that is smaller than the model), or the one payload of a full model.
    """

    client: int
    round: int
    version: int
    base_version: int
    payloads: tuple[bytes, ...]
    buffers: bytes  # Float32 payload of the BatchNorm buffers; b"" if the model has none
    seed: int = 0  # root seed of the run
    probe: tuple[Codec, Codec] | None = None  # re-quantize the aggregate with both and report the losses

    @property
    def full(self) -> bool:
        return self.base_version < 0

    @property
    def probing(self) -> bool:
        """Whether losses are asked for; only a client that got aggregates can compare before and after."""
        return self.probe is not None and bool(self.payloads) and not self.full

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.payloads)) + len(self.buffers)


@dataclass(frozen=True, slots=True)
class Report:
    """Step 2. Losses on the same held-out samples; NaN where not asked for."""

    client: int
    round: int
    examples: int
    loss_before: float = NAN  # L_{i,k-1}
    loss_after: float = NAN  # L_{i,k}, the aggregate re-quantized with the first codec
    loss_probe: float = NAN  # L'_{i,k}, with the second


@dataclass(frozen=True, slots=True)
class Task:
    """Step 4. Train for `epochs`, encode with `codec` (levels refined to fill `budget_bytes`), upload."""

    client: int
    round: int
    codec: Codec
    epochs: float  # parts of one too, where learners can (`Update.least_epochs`)
    learning_rate: float
    seed: int  # root seed of the run
    budget_bytes: int | None = None  # for payload and buffers together
    rate_curve: bool = False  # report the codec's rate curve of this update
    budget_bits: float = 0.0  # a parameter of the payload, if there is no `budget_bytes`; 0: the codec as it is
    proximal: float = 0.0  # pull back to the round's first model (FedProx's mu)
    inertia: float = 0.0  # share of a local step that follows the last global one (FedCM's 1 - alpha)
    clip_norm: float = 0.0  # differential privacy: the update's largest norm; 0: none
    noise_deviation: float = 0.0  # … the deviation of the noise that the client adds to every entry

    @property
    def fitted(self) -> bool:
        """Whether the codec's levels are the client's to choose."""
        return self.budget_bytes is not None or self.budget_bits > 0.0

    def payload_budget(self, elements: int, buffer_bytes: int) -> int | None:
        """Return the bytes that a payload of so many elements may take."""
        if self.budget_bytes is not None:
            return max(self.budget_bytes - buffer_bytes, 1)
        return max(int(self.budget_bits * elements / 8), 1) if self.fitted else None


@dataclass(frozen=True, slots=True)
class Update:
    """Step 5. The payload and what only the client can know about it."""

    client: int
    round: int
    examples: int
    payload: bytes
    buffers: bytes
    levels: int  # what the codec really used; 0 for codecs without levels
    energy: float  # ||u||^2
    error_energy: float  # ||Q(u) - u||^2
    rate_bits: tuple[float, ...] = ()  # codec.rate_curve of this update: payload bits at 1..16 level bits
    train_loss: float = NAN  # mean over the local epochs
    version: int = -1  # of the model that training began with
    least_epochs: float = 1.0  # that are worth training: below 1, a batch's share, where the learner can train parts

    @property
    def nbytes(self) -> int:
        return len(self.payload) + len(self.buffers)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Step 6. An Update without its payload, with the seconds that the backend measured for it."""

    client: int
    round: int
    examples: int
    levels: int
    upload_bytes: int
    download_bytes: int
    energy: float
    error_energy: float
    rate_bits: tuple[float, ...]
    train_loss: float
    download_seconds: float
    compute_seconds: float  # probe, local epochs, encoding
    upload_seconds: float
    waiting_seconds: float = 0.0  # idle until the round closed
    arrival_seconds: float = NAN  # since the client was posted its sync, by the server's own clock; NaN if not known
    version: int = -1  # of the model that training began with
    least_epochs: float = 1.0  # that are worth training at this client
    epochs: float = 1.0  # that its task asked for

    @property
    def busy_seconds(self) -> float:
        """Seconds in which the client or its links worked."""
        return self.download_seconds + self.compute_seconds + self.upload_seconds


# lost: never came; late: came after the deadline; refused: came and was not used; clamped: used, but for a number
# in it that was cut to size or left out; diverged: training left a number that is not finite, so nothing was sent;
# failed: the client's own code raised an exception; excluded: it is left out for some rounds.
IncidentKind = Literal["lost", "late", "refused", "clamped", "diverged", "failed", "excluded"]


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that was asked of a client in this round and did not come, or not as it should."""

    client: int
    round: int
    kind: IncidentKind
    reason: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a backend hands over: a report, an update, both, or the news that nothing more will come."""

    client: int
    seconds: float  # when, on the backend's clock
    report: Report | None = None
    update: Update | None = None
    incident: Incident | None = None  # the client's last word in this round


@dataclass(frozen=True, slots=True)
class Settlement:
    """Step 6. A round as the backend's clock saw it: receipts in client order, of all updates handed over."""

    receipts: tuple[Receipt, ...]
    round_seconds: float
    server_seconds: float  # the part of the round in which only the server worked


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Step 1, as the server saw it: the aggregate's payload and what it lost."""

    nbytes: int = 0
    energy: float = NAN  # of the aggregate, what earlier broadcasts lost included
    error_energy: float = NAN  # of what is left for the next one


@dataclass(frozen=True, slots=True)
class Facts:
    """Step 3b. What is known when a round's payloads are decided: its reports, the last round's receipts."""

    round: int
    reports: tuple[Report, ...]
    receipts: tuple[Receipt, ...]  # of round - 1; empty in the first round
    norm: float  # ||g_{round-1}||, NaN in the first round
    server_seconds: float  # t_server of round - 1
    broadcast: Broadcast = Broadcast()  # what the clients of these receipts downloaded
    noise_energy: float = 0.0  # of the noise that privacy put into g_{round-1}, as expected


@dataclass(frozen=True, slots=True)
class Choice:
    """What the controller decides for one client: its codec, a byte budget that the client fills, its epochs."""

    codec: Codec | None = None  # None leaves the method's own
    budget_bytes: int | None = None
    epochs: float = 0  # local epochs; 0 leaves them to the method
    budget_bits: float = 0.0  # a parameter, while no bytes are known; 0 leaves the codec as it is
