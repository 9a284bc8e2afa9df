"""What every node's messages took: for the receipts, for exchanges.jsonl, and for the links' rates.

    exchange = Flower's own part + download + the node's steps + upload

Flower's own part (polling, starting a process) is what is left of an exchange, the median over the nodes: it is the
same for all and nobody's to shorten, so it counts as the server's. What is left beyond the median is the node's,
whatever it says of its steps; so nobody gains by claiming less.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf, isfinite, nan
from statistics import median
from typing import Any, Final, Protocol

from flwr.app import ConfigRecord, RecordDict

from adagq.core.messages import Receipt, Update
from adagq.flower.link_rates import Link
from adagq.flower.names import NODE
from adagq.flower.transport import Reply

STEPS: Final = ("receive-seconds", "probe-seconds", "train-seconds", "encode-seconds")
BYTES_PER_SECOND: Final = 125_000  # in one Mbit/s
LONGEST_SECONDS: Final = 600.0  # that Flower is taken to need for an exchange
RECENT: Final = 5  # rounds
PATIENCE: Final = 2.0  # times the longest median of recent rounds: half of the nodes take longer than the median


class HasBytes(Protocol):
    """A message that was posted."""

    @property
    def sent_bytes(self) -> int: ...


@dataclass
class Trip:
    """What one client's round has taken so far."""

    download_bytes: int = 0
    download_seconds: float = 0.0
    upload_seconds: float = 0.0
    step_seconds: float = 0.0  # by its own account
    rest_seconds: float = 0.0  # of its exchanges


@dataclass
class Wire:
    """Both directions of one node."""

    up: Link = field(default_factory=Link)
    down: Link = field(default_factory=Link)


class Timing:
    """All nodes' links, and the round under way."""

    def __init__(self) -> None:
        self.wires: dict[int, Wire] = {}
        self.exchanges: list[dict[str, Any]] = []  # of this round, as measured
        self._trips: dict[int, Trip] = {}
        self._rests: dict[int, list[float]] = {}  # phase of the round (1, 2) -> what was left of each exchange
        self._usual: dict[int, list[float]] = {}  # phase -> Flower's part in recent rounds
        self._waited = False  # for anyone in this round

    def begin(self) -> None:
        """Begin a round; if nobody answered the last one in time, Flower is taken to need twice as long."""
        if self._waited and not self._rests:
            for phase in (1, 2):
                self._note(phase, 2.0 * max((1.0, *self._usual.get(phase, ()))))
        for phase, rests in self._rests.items():
            self._note(phase, median(rests))
        self._waited = False
        self.exchanges.clear()
        self._trips.clear()
        self._rests.clear()

    def usual_seconds(self, phase: int) -> float:
        """Return what Flower's own part may take up to the end of this phase: more than in any recent round.

        It varies from message to message, and from round to round on a busy machine; it is nobody's fault.
        """
        self._waited = True
        return PATIENCE * sum(max(seconds) for number, seconds in self._usual.items() if number <= phase)

    def own_seconds(self, phase: int = 2) -> float:
        """Return Flower's own part of this round, up to the end of this phase."""
        return sum(median(rests) for number, rests in self._rests.items() if number <= phase)

    def meet(self, client: int, reply: Reply) -> None:
        """Note a node's introduction: the rates it claims, and what a message without payload takes."""
        said, wire = said_by(reply), self.wires.setdefault(client, Wire())
        wire.up.known_bps, wire.down.known_bps = _rate(said, "uplink-mbps"), _rate(said, "downlink-mbps")
        wire.up.saw(0, reply.upload_seconds)
        if isfinite(on_its_way := _on_its_way(reply)):
            wire.down.saw(0, on_its_way)

    def measure(self, round: int, phase: int, client: int, name: str, reply: Reply, posted: "HasBytes") -> None:
        """Note one message, which brought the node `posted.sent_bytes` of payload, and its reply."""
        sent_bytes = posted.sent_bytes
        wire, trip = self.wires.setdefault(client, Wire()), self._trips.setdefault(client, Trip())
        said, on_its_way, received_bytes = said_by(reply), _on_its_way(reply), _payload_bytes(reply.content)
        steps = {step.replace("-", "_"): _seconds(said.get(step)) for step in STEPS}
        trip.download_bytes += sent_bytes
        down = up = 0.0
        if isfinite(on_its_way):
            wire.down.saw(sent_bytes, on_its_way)
            down = wire.down.seconds(sent_bytes, on_its_way) if sent_bytes else 0.0
        if reply.content is not None:
            wire.up.saw(received_bytes, reply.upload_seconds)
            up = wire.up.seconds(received_bytes, reply.upload_seconds) if received_bytes else 0.0
        exchange_seconds = reply.arrived_seconds - reply.sent_seconds
        # Nothing takes longer than the exchange it is part of, whatever a fit or a node says.
        down = min(down, exchange_seconds)
        up = min(up, exchange_seconds - down)
        step_seconds = min(sum(steps.values()), exchange_seconds - down - up)
        rest = exchange_seconds - down - up - step_seconds
        trip.download_seconds += down
        trip.upload_seconds += up
        trip.step_seconds += step_seconds
        trip.rest_seconds += rest
        if reply.content is not None:
            self._rests.setdefault(phase, []).append(rest)
        self.exchanges.append(
            {
                "round": round,
                "client": client,
                "name": name,
                "download_bytes": sent_bytes,
                "upload_bytes": received_bytes,
                "exchange_seconds": exchange_seconds,
                "on_its_way_seconds": on_its_way if isfinite(on_its_way) else None,
                **steps,
                "process_seconds": _seconds(said.get("seconds")),
                "upload_seconds": reply.upload_seconds,
                "uplink_bps": wire.up.rate_bps,
                "downlink_bps": wire.down.rate_bps,
                "error": reply.error or None,
            }
        )

    def receipt(self, update: Update, arrived_seconds: float) -> Receipt:
        """Return what is known of an update that arrived so long after its round began."""
        trip, extra = self._trips[update.client], 8.0 * len(update.buffers)
        return Receipt(
            client=update.client,
            round=update.round,
            examples=update.examples,
            levels=update.levels,
            upload_bytes=update.nbytes,
            download_bytes=trip.download_bytes,
            energy=update.energy,
            error_energy=update.error_energy,
            rate_bits=tuple(bits + extra for bits in update.rate_bits),
            train_loss=update.train_loss,
            download_seconds=trip.download_seconds,
            compute_seconds=trip.step_seconds,
            upload_seconds=trip.upload_seconds,
            arrival_seconds=arrived_seconds,
            version=update.version,
            least_epochs=update.least_epochs,
        )

    def settled(self, receipt: Receipt, until_seconds: float) -> Receipt:
        """Return the receipt once all have answered and the round is over for the clients.

        Flower's own part is in none of its seconds. Steps of a node that Flower kept shorter than most may
        not fit beside that part; they are cut to what does, so that a node's seconds and the server's are the round's.
        """
        own_seconds = self.own_seconds()
        moved_seconds = receipt.download_seconds + receipt.upload_seconds
        late_seconds = max(self._trips[receipt.client].rest_seconds - own_seconds, 0.0)
        compute_seconds = min(receipt.compute_seconds + late_seconds, max(until_seconds - moved_seconds, 0.0))
        busy_seconds = moved_seconds + compute_seconds
        return replace(
            receipt,
            compute_seconds=compute_seconds,
            waiting_seconds=max(until_seconds - busy_seconds, 0.0),
            arrival_seconds=max(receipt.arrival_seconds - own_seconds, busy_seconds),
        )

    def to_json(self) -> dict[str, Any]:
        wires = {str(client): [wire.up.to_json(), wire.down.to_json()] for client, wire in self.wires.items()}
        own = self._usual | {
            phase: [*self._usual.get(phase, ()), median(rests)][-RECENT:] for phase, rests in self._rests.items()
        }
        return {"wires": wires, "usual": {str(phase): seconds for phase, seconds in own.items()}}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.wires = {int(client): Wire(*map(Link.from_json, links)) for client, links in saved["wires"].items()}
        for phase, seconds in saved["usual"].items():  # one number in checkpoints of earlier versions
            self._usual[int(phase)] = list(seconds) if isinstance(seconds, list) else [seconds]

    def _note(self, phase: int, seconds: float) -> None:
        self._usual[phase] = [*self._usual.get(phase, ()), min(seconds, LONGEST_SECONDS)][-RECENT:]


def said_by(reply: Reply) -> Mapping[str, Any]:
    """Return what the node says of itself; nothing if it does not."""
    said = reply.content.get(NODE) if reply.content is not None else None
    return said if isinstance(said, ConfigRecord) else {}


def _on_its_way(reply: Reply) -> float:
    """Return the seconds from sending to the node's process running, plus the difference of the two clocks."""
    started = said_by(reply).get("started-at")
    return float(started) - reply.sent_at if isinstance(started, int | float) else nan


def _seconds(value: Any) -> float:
    """Return a duration that a node claims; 0 for what is none."""
    return float(value) if isinstance(value, int | float) and 0 <= value < inf else 0.0


def _rate(said: Mapping[str, Any], key: str) -> float | None:
    mbps = _seconds(said.get(key))
    return BYTES_PER_SECOND * mbps if mbps > 0 else None


def _payload_bytes(content: RecordDict | None) -> int:
    if content is None:
        return 0
    return sum(len(array.data) for arrays in content.array_records.values() for array in arrays.values())
