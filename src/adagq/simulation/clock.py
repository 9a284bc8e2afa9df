"""The virtual clock: when each step happens, from sizes, rates and work alone. Nothing reads the machine's clock.

    client   download ─ decode ─ probe ─ train ──┬─ encode ─ upload ─┐
    server                        └ all reports ─ decide ─┘          └ decode in order of arrival, encode the step

Training goes on while the server decides: encoding begins when both are done; report and task cost a latency each. In
a round of one exchange there is nothing to wait for. With `payload_scale` the body of every payload counts that many
times, its frame header once; controllers, ledger and rows see these link bytes, clients see their real ones. Floats as
they are take no time to encode; every other codec takes the device's seconds per element; the server's cores are twice
as fast and share the work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

from adagq.codecs.wire import HEADER
from adagq.core.messages import Receipt, Sync, Task, Update
from adagq.simulation.fleet import Client, Fleet
from adagq.simulation.fleet.devices import DECODE_SECONDS_PER_ELEMENT, ENCODE_SECONDS_PER_ELEMENT

FRAME_BYTES = HEADER.size + 8  # of a payload with one section
SERVER_SPEED = 2.0  # of one of the server's cores, in devices
REQUANTIZATIONS = 2  # of a probe: the aggregate with either codec
PROBE_PASSES = 3  # the loss before, and after each of them


@dataclass(frozen=True, slots=True)
class Scale:
    """Real payload bytes <-> bytes on the link.

    >>> Scale(10.0).link_bytes(156, payloads=1), Scale(10.0).real_bytes(1056, payloads=1)
    (1056, 156)
    """

    factor: float = 1.0

    def link_bytes(self, nbytes: float, payloads: int) -> int:
        """Return what `payloads` payloads of `nbytes` together count on the link."""
        header = FRAME_BYTES * payloads
        return round(header + (nbytes - header) * self.factor)

    def real_bytes(self, link_bytes: float, payloads: int) -> int:
        """Return the size of payloads that count `link_bytes` on the link."""
        header = FRAME_BYTES * payloads
        return int(header + (link_bytes - header) / self.factor)

    def sync(self, sync: Sync) -> int:
        return self.link_bytes(sync.nbytes, len(sync.payloads) + bool(sync.buffers))

    def update(self, update: Update) -> int:
        return self.link_bytes(update.nbytes, 1 + bool(update.buffers))

    def rate_bits(self, update: Update) -> tuple[float, ...]:
        """Return the update's rate curve as link bits, its buffers included."""
        extra = len(update.buffers)
        return tuple(8.0 * self.link_bytes(bits / 8 + extra, 1 + bool(extra)) for bits in update.rate_bits)


@dataclass(frozen=True, slots=True)
class Visit:
    """One client's part of a round, from the second its sync was posted; all times are those of the run."""

    client: int
    round: int
    attempt: int
    posted: float
    download_bytes: int
    download_seconds: float
    probe_seconds: float  # decoding included
    task: Task | None = None
    train_seconds: float = 0.0
    encode_seconds: float = 0.0
    encoded: float = inf  # when the payload is ready to be sent

    @property
    def ready(self) -> float:
        """When the client has applied the broadcast and probed: training begins."""
        return self.posted + self.download_seconds + self.probe_seconds

    @property
    def trained(self) -> float:
        return self.ready + self.train_seconds


@dataclass(frozen=True, slots=True)
class Timer:
    """Seconds of every step. `fleet` is calibrated to the data and the model."""

    fleet: Fleet
    scale: Scale
    elements: float  # of the model that the payloads stand for
    examples: Sequence[int]  # that each client trains on
    held_out: Sequence[int]  # samples that each client probes on
    decodes_downlink: bool  # whether the aggregate arrives in a codec that takes time
    encodes_uplink: bool
    parts: bool = True  # whether clients train parts of an epoch

    def visit(self, sync: Sync, now: float, attempt: int) -> Visit:
        """Steps 1 and 2: the client downloads, decodes and, where asked, probes."""
        client = self._client(sync.client)
        nbytes = self.scale.sync(sync)
        download_seconds = client.downlink.seconds(nbytes, now, sync.round)
        decodes = len(sync.payloads) if self.decodes_downlink and not sync.full else 0
        seconds = decodes * client.device.decode_seconds(self.elements)
        if sync.probing:
            seconds += client.device.probe_seconds(self.held_out[sync.client], PROBE_PASSES, sync.round)
            codec_seconds = client.device.encode_seconds(self.elements) + client.device.decode_seconds(self.elements)
            seconds += REQUANTIZATIONS * codec_seconds
        return Visit(sync.client, sync.round, attempt, now, nbytes, download_seconds, seconds)

    def reported(self, visit: Visit) -> float:
        """Return when the report of a client that was sent a sync alone is there."""
        return visit.ready + self._client(visit.client).uplink.latency_seconds

    def train_seconds(self, client: int, epochs: float, round: int) -> float:
        trained = epochs if self.parts else ceil(epochs)
        return self._client(client).device.train_seconds(self.examples[client], trained, round)

    def encoded(self, visit: Visit, decided: float | None) -> tuple[float, float]:
        """Return when the payload is ready and the seconds of encoding; `decided` if the task came on its own."""
        client = self._client(visit.client)
        seconds = client.device.encode_seconds(self.elements) if self.encodes_uplink else 0.0
        begun = visit.trained if decided is None else max(visit.trained, decided + client.downlink.latency_seconds)
        return begun + seconds, seconds

    def receipt(self, visit: Visit, update: Update) -> Receipt:
        """Return what is known of an update once its size is: its seconds, and when it arrives."""
        nbytes = self.scale.update(update)
        upload_seconds = self._client(visit.client).uplink.seconds(nbytes, visit.encoded, visit.round)
        return Receipt(
            client=visit.client,
            round=visit.round,
            examples=update.examples,
            levels=update.levels,
            upload_bytes=nbytes,
            download_bytes=visit.download_bytes,
            energy=update.energy,
            error_energy=update.error_energy,
            rate_bits=self.scale.rate_bits(update),
            train_loss=update.train_loss,
            download_seconds=visit.download_seconds,
            compute_seconds=visit.probe_seconds + visit.train_seconds + visit.encode_seconds,
            upload_seconds=upload_seconds,
            arrival_seconds=visit.encoded + upload_seconds - visit.posted,
            version=update.version,
            least_epochs=update.least_epochs,
        )

    def server_seconds(self, arrivals: Sequence[float], last: float) -> float:
        """Return how long the server works after the second `last`, when it stopped waiting.

        It decodes payload after payload as they arrive, then encodes the step.
        """
        speed = SERVER_SPEED * self.fleet.server_cores
        decode_seconds = DECODE_SECONDS_PER_ELEMENT * self.elements / speed if self.encodes_uplink else 0.0
        encode_seconds = ENCODE_SECONDS_PER_ELEMENT * self.elements / speed if self.decodes_downlink else 0.0
        free = -inf
        for arrival in sorted(arrivals):
            free = max(free, arrival) + decode_seconds
        return max(free - last, 0.0) + encode_seconds + self.fleet.server_seconds

    def edge_seconds(self, arrivals: Mapping[int, float], sent: Mapping[int, int], last: float) -> float:
        """The same where edge servers, as fast as the server, add up first; `sent` are the bytes of their payloads."""
        speed = SERVER_SPEED * self.fleet.server_cores
        decode_seconds = DECODE_SECONDS_PER_ELEMENT * self.elements / speed
        encode_seconds = ENCODE_SECONDS_PER_ELEMENT * self.elements / speed
        added: dict[int, float] = {}  # edge -> when its sum is made
        for client, arrival in sorted(arrivals.items(), key=lambda one: (one[1], one[0])):
            edge = client % self.fleet.edges
            added[edge] = max(added.get(edge, -inf), arrival) + (decode_seconds if self.encodes_uplink else 0.0)
        free = last
        for edge, made in sorted(added.items(), key=lambda one: (one[1], one[0])):
            upload_seconds = 8e-6 * self.scale.link_bytes(sent.get(edge, 0), 1) / self.fleet.edge_mbps
            free = max(free, made + encode_seconds + upload_seconds) + decode_seconds
        return free - last + self.server_seconds((), last)

    def _client(self, client: int) -> Client:
        return self.fleet.clients[client]
