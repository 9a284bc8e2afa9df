"""What travels between server and clients, and what the controller gets to know.

One round in the paper's six steps, and the message of each:

    1  server -> client   Sync      the aggregate of the last round (or the whole model), probe levels
    2  client -> server   Report    losses on the client's held-out samples
    3b server             Facts     everything known when the levels of this round are decided
    4  server -> client   Task      how to train and how to send
    5  client -> server   Update    the encoded update, and what the client measured while encoding it
    6  server             Receipt   what the server keeps of an Update once the payload is added up
       server             Incident  a client that did not deliver, or what it delivered and may not be used

All are frozen; there is one message object per client, so nothing leaks from one client to another. Seconds
are measured by the backend (a virtual clock or a real one), never here. Byte counts are `len(payload)`.
"""

from dataclasses import dataclass
from typing import Literal

from adagq.codecs import Codec


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
    probe_codec: Codec | None = None  # the uplink codec, for `probe_levels`
    probe_levels: tuple[int, int] | None = None  # (s_i, s'_i): re-quantize the aggregate with both
    probe_noise: float = 0.0  # noise-to-signal energy at which to evaluate the new model as well; 0 = off

    @property
    def full(self) -> bool:
        return self.base_version < 0

    @property
    def probing(self) -> bool:
        """Whether losses are asked for; only a client that got aggregates can compare before and after."""
        asked = self.probe_levels is not None or self.probe_noise > 0
        return asked and bool(self.payloads) and not self.full

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.payloads)) + len(self.buffers)


@dataclass(frozen=True, slots=True)
class Report:
    """Step 2. Losses on the same held-out samples; NaN where not asked for."""

    client: int
    round: int
    examples: int
    loss_before: float = float("nan")  # L_{i,k-1}
    loss_after: float = float("nan")  # L_{i,k}, aggregate re-quantized with s_i (or applied as it is)
    loss_probe: float = float("nan")  # L'_{i,k}, aggregate re-quantized with s'_i
    loss_noisy: float = float("nan")  # loss with noise of energy probe_noise * ||aggregate||^2 added


@dataclass(frozen=True, slots=True)
class Task:
    """Step 4. Train for `epochs`, encode with `codec` (levels refined to fill `budget_bytes`), upload."""

    client: int
    round: int
    codec: Codec
    epochs: int
    learning_rate: float
    seed: int  # root seed of the run
    budget_bytes: int | None = None  # for payload and buffers together
    residual: bool = False  # keep what the codec lost and add it to the next update
    rate_curve: bool = False  # report the codec's rate curve of this update


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
    train_loss: float = float("nan")

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
    waiting_seconds: float  # idle until the round closed
    arrival_seconds: float = float("nan")  # since the round began, by the server's own clock; NaN if not known


# lost: never came; late: came after the deadline; refused: came and was not used; clamped: used, but for a number
# in it that was cut to size or left out.
IncidentKind = Literal["lost", "late", "refused", "clamped"]


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that was asked of a client in this round and did not come, or not as it should."""

    client: int
    round: int
    kind: IncidentKind
    reason: str


@dataclass(frozen=True, slots=True)
class Closing:
    """Step 6. A round as the backend's clock saw it: receipts in client order, only of what arrived."""

    receipts: tuple[Receipt, ...]
    round_seconds: float
    server_seconds: float  # the part of the round in which only the server worked
    incidents: tuple[Incident, ...] = ()  # what the backend knows of those that did not deliver
    report_seconds: float = float("nan")  # since the round began: when the last report was there; NaN if not known


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Step 1, as the server saw it: the aggregate's payload and what it lost."""

    nbytes: int = 0
    energy: float = float("nan")  # of the aggregate, what earlier broadcasts lost included
    error_energy: float = float("nan")  # of what is left for the next one


@dataclass(frozen=True, slots=True)
class Facts:
    """Step 3b. What is known when a round's levels are decided: its reports, the last round's receipts."""

    round: int
    reports: tuple[Report, ...]
    receipts: tuple[Receipt, ...]  # of round - 1; empty in the first round
    norm: float  # ||g_{round-1}||, NaN in the first round
    server_seconds: float  # t_server of round - 1
    broadcast: Broadcast = Broadcast()  # what the clients of these receipts downloaded


@dataclass(frozen=True, slots=True)
class Choice:
    """What the controller decides for one client: a level count, or a byte budget that the client fills."""

    levels: int = 0
    budget_bytes: int | None = None
    epochs: int = 0  # local epochs; 0 leaves them to the method
