"""The virtual clock: when each step of a round happens, from sizes, rates and work alone.

    client   download ─ decode ─ probe ─ train ──┬─ encode ─ upload ─┐
    server                        └ all reports ─ decide ─┘          └ decode in order of arrival, encode the mean

Step 3b overlaps with 3a: encoding begins when both are done; report and task cost a latency each. In a round of one
exchange there is nothing to wait for. The server does not know who is gone: it waits for a missing report or update
until the deadline, or, without one, for as long as the client would have computed. Nothing here reads the machine's
clock. With
`payload_scale` the body of every payload counts that many times, its frame header once; controllers, ledger
and rows see these link bytes, clients see their real ones. Floats as they are take no time to encode; every
other codec takes the device's seconds per element; the server's cores are twice as fast and share the work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite

from adagq.codecs.wire import HEADER
from adagq.fleet import Fleet
from adagq.fleet.devices import DECODE_SECONDS_PER_ELEMENT, ENCODE_SECONDS_PER_ELEMENT
from adagq.fleet.failures import Step
from adagq.messages import Closing, Incident, IncidentKind, Receipt, Sync, Task, Update

FRAME_BYTES = HEADER.size + 8  # of a payload with one section
SERVER_SPEED = 2.0  # of one of the server's cores, in devices


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
class _Begun:
    """A client that has been synchronised and has probed."""

    download_bytes: int
    download_seconds: float
    probe_seconds: float  # decoding included

    @property
    def seconds(self) -> float:
        return self.download_seconds + self.probe_seconds


@dataclass
class Clock:
    """Virtual time of one run. `fleet` is calibrated to the data and the model."""

    fleet: Fleet
    scale: Scale
    elements: float  # of the model that the payloads stand for
    held_out: Sequence[int]  # samples that each client probes on
    decodes_downlink: bool  # whether the aggregate arrives in a codec that takes time
    encodes_uplink: bool
    now: float = 0.0
    examples: Sequence[int] = ()  # that each client trains on
    _round: int = 0
    _attempt: int = 0  # vain ones at this round
    _begun: dict[int, _Begun] = field(default_factory=dict)
    _decided: float = 0.0
    _deadline: float = inf  # of this round's updates, since it began
    _missing: float = -inf  # the second until which someone that does not come is waited for, if there is no deadline
    _incidents: list[Incident] = field(default_factory=list)
    _report_seconds: float = 0.0
    _receipts: list[tuple[float, Receipt]] = field(default_factory=list)  # with the second of arrival

    def begin(self, syncs: Sequence[Sync], deadline: float = inf, together: bool = False) -> list[Sync]:
        """Steps 1 and 2: every client downloads and, where asked, probes; then the server can decide.

        Returns the syncs of those whose report came in time.
        """
        round = syncs[0].round
        self._attempt = self._attempt + 1 if round == self._round else 0
        self._round = round
        self._receipts.clear()
        self._incidents.clear()
        self._missing = -inf
        self._begun = {sync.client: self._begin(sync) for sync in syncs}
        present, seconds, awaited = [], [], []
        for sync in syncs:
            begun = self._begun[sync.client]
            reported = begun.seconds + (0.0 if together else self.fleet.clients[sync.client].uplink.latency_seconds)
            absent = self._fails(sync.client) == "report" or self._leaves(sync.client) < self.now + begun.seconds
            missing = absent or (reported > deadline and not together)
            if not missing:
                present.append(sync)
                seconds.append(reported)
            elif absent:
                self._lose(sync.client, "did not report")
            else:
                reason = f"report after {reported:.4g} s, asked for by {deadline:.4g} s"
                self._note(sync.client, sync.round, "late", reason)
            if sync.probing:
                awaited.append(deadline if missing and isfinite(deadline) else reported)
        self._report_seconds = max(seconds, default=0.0)
        self._decided = self.now + (0.0 if together else max(awaited, default=0.0))
        return present

    def _begin(self, sync: Sync) -> _Begun:
        client = self.fleet.clients[sync.client]
        nbytes = self.scale.sync(sync)
        download_seconds = client.downlink.seconds(nbytes, self.now, sync.round)
        decodes = len(sync.payloads) if self.decodes_downlink and not sync.full else 0
        seconds = decodes * client.device.decode_seconds(self.elements)
        if sync.probing:
            requantized = 0 if sync.probe_levels is None else 2
            passes = 1 + max(1, requantized) + (sync.probe_noise > 0)
            seconds += client.device.probe_seconds(self.held_out[sync.client], passes, sync.round)
            codec_seconds = client.device.encode_seconds(self.elements) + client.device.decode_seconds(self.elements)
            seconds += requantized * codec_seconds
        return _Begun(nbytes, download_seconds, seconds)

    def expect(self, deadline: float) -> None:
        """Set the deadline of this round's updates."""
        self._deadline = deadline

    def trains(self, task: Task) -> bool:
        """Whether the client comes to the end of its training; who does not is waited for in vain."""
        seconds = self._begun[task.client].seconds + self._train_seconds(task.client, task.epochs)
        if self._fails(task.client) == "training" or self._leaves(task.client) < self.now + seconds:
            self._lose(task.client, "failed in training", task.epochs)
            return False
        return True

    def diverged(self, client: int, round: int) -> None:
        """Note a client that has nothing finite to send, and says so."""
        self._note(client, round, "refused", "training left a number that is not finite")

    def arrived(self, task: Task, update: Update) -> bool:
        """Steps 3 to 5: train, wait for the decision if need be, encode, upload; whether it came in time."""
        client, begun = self.fleet.clients[task.client], self._begun[task.client]
        train_seconds = client.device.train_seconds(update.examples, task.epochs, task.round)
        encode_seconds = client.device.encode_seconds(self.elements) if self.encodes_uplink else 0.0
        compute_seconds = begun.probe_seconds + train_seconds + encode_seconds
        trained = self.now + begun.download_seconds + begun.probe_seconds + train_seconds
        decided = self._decided
        if decided > self.now:
            decided += client.downlink.latency_seconds
        encoded = max(trained, decided) + encode_seconds
        nbytes = self.scale.update(update)
        upload_seconds = client.uplink.seconds(nbytes, encoded, task.round)
        arrival_seconds = encoded + upload_seconds - self.now
        if self._fails(task.client) == "upload" or self._leaves(task.client) < encoded + upload_seconds:
            self._lose(task.client, "failed in its upload", task.epochs)
            return False
        if arrival_seconds > self._deadline:
            reason = f"update after {arrival_seconds:.4g} s, asked for by {self._deadline:.4g} s"
            self._note(task.client, task.round, "late", reason)
            return False
        receipt = Receipt(
            client=task.client,
            round=task.round,
            examples=update.examples,
            levels=update.levels,
            upload_bytes=nbytes,
            download_bytes=begun.download_bytes,
            energy=update.energy,
            error_energy=update.error_energy,
            rate_bits=self.scale.rate_bits(update),
            train_loss=update.train_loss,
            download_seconds=begun.download_seconds,
            compute_seconds=compute_seconds,
            upload_seconds=upload_seconds,
            waiting_seconds=0.0,  # known when the last one has arrived
            arrival_seconds=arrival_seconds,
        )
        self._receipts.append((encoded + upload_seconds, receipt))
        return True

    def close(self) -> Closing:
        """Step 6: the server decodes payload after payload as they arrive, then encodes the mean."""
        speed = SERVER_SPEED * self.fleet.server_cores
        decode_seconds = DECODE_SECONDS_PER_ELEMENT * self.elements / speed if self.encodes_uplink else 0.0
        encode_seconds = ENCODE_SECONDS_PER_ELEMENT * self.elements / speed if self.decodes_downlink else 0.0
        free = last = self.now
        for arrival in sorted(second for second, _ in self._receipts):
            last = arrival
            free = max(free, arrival) + decode_seconds
        if any(incident.kind in ("lost", "late") for incident in self._incidents):
            last = max(last, self.now + self._deadline if isfinite(self._deadline) else self._missing)
            free = max(free, last)
        server_seconds = free - last + encode_seconds + self.fleet.server_seconds
        start, self.now = self.now, last + server_seconds
        return Closing(
            receipts=tuple(_with_waiting(receipt, last - start) for _, receipt in self._receipts),
            round_seconds=self.now - start,
            server_seconds=server_seconds,
            incidents=tuple(self._incidents),
            report_seconds=self._report_seconds,
        )

    def _fails(self, client: int) -> Step | None:
        return self.fleet.clients[client].reliability.fails(self._round, self._attempt)

    def _leaves(self, client: int) -> float:
        return self.fleet.clients[client].reliability.leaves(self.now)

    def _lose(self, client: int, reason: str, epochs: int = 1) -> None:
        seconds = self._begun[client].seconds + self._train_seconds(client, epochs)
        self._missing = max(self._missing, self.now + seconds)
        self._note(client, self._round, "lost", reason)

    def _train_seconds(self, client: int, epochs: int) -> float:
        samples = self.examples[client] if self.examples else 0
        return self.fleet.clients[client].device.train_seconds(samples, epochs, self._round)

    def _note(self, client: int, round: int, kind: IncidentKind, reason: str) -> None:
        self._incidents.append(Incident(client, round, kind, reason))


def _with_waiting(receipt: Receipt, seconds: float) -> Receipt:
    busy = receipt.download_seconds + receipt.compute_seconds + receipt.upload_seconds
    return replace(receipt, waiting_seconds=max(seconds - busy, 0.0))
