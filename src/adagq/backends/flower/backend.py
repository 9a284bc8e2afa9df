"""`rounds.Backend` over Flower: the clients are nodes, and the seconds are measured.

    node     on its way ─ download ─ receive ─ probe ─ train ─ encode ─ upload
    server   sent ──────────────────────────────────────────── looked … arrived

A node's own process measures what it computes; `links` tells the seconds of the bytes from Flower's own. The clock
runs from the moment a round's first message is made until its updates are added up, and while the next broadcast is
encoded; evaluating the model stops it. Updates are handed on in client order while what has to wait for its turn is
small, so that a sum does not depend on who was faster.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from logging import WARNING
from math import inf, isfinite, nan
from typing import Any, Final

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from flwr.supercore import log
from numpy.typing import NDArray

from adagq.backends.flower import records
from adagq.backends.flower.courier import Courier, Reply, Round
from adagq.backends.flower.links import Link
from adagq.backends.flower.node import NODE, RUN, layout_digest
from adagq.backends.flower.roster import Roster
from adagq.backends.flower.shelf import digest_of
from adagq.codecs import Float32
from adagq.errors import PayloadError
from adagq.messages import Closing, Incident, Receipt, Report, Sync, Task, Update
from adagq.vectors import FloatVector, Layout

HELD_BYTES: Final = 256 * 2**20  # of updates that wait for their turn
LOOK_FOR_NODES_SECONDS: Final = 0.5
STEPS: Final = ("receive-seconds", "probe-seconds", "train-seconds", "encode-seconds")
BYTES_PER_SECOND: Final = 125_000  # in one Mbit/s
Evaluate = Callable[[FloatVector, FloatVector], tuple[float, float]]
Answer = tuple[Report | None, Update | None]


@dataclass
class Trip:
    """What one client's round has taken so far."""

    download_bytes: int = 0
    download_seconds: float = 0.0
    compute_seconds: float = 0.0


@dataclass
class Wire:
    """Both directions of one node."""

    up: Link = field(default_factory=Link)
    down: Link = field(default_factory=Link)


class Nodes:
    """One run's nodes. `model` is what the first round begins with; `run` names the run on the nodes' disks."""

    def __init__(
        self,
        courier: Courier,
        layout: Layout,
        model: tuple[FloatVector, FloatVector],
        run: str,
        evaluate: Evaluate = lambda vector, buffers: (nan, nan),
        patience_seconds: float = 120.0,
    ) -> None:
        self._courier = courier
        self._layout = layout
        self._evaluate = evaluate
        self._patience_seconds = patience_seconds
        self.run = run
        self.roster = Roster()
        self.wires: dict[int, Wire] = {}
        self.exchanges: list[dict[str, Any]] = []  # of this round, as measured
        self._present: dict[int, int] = {}  # client -> node
        self._refused: set[int] = set()  # nodes that can never take part
        self._greetings: Round | None = None
        self._model = model
        self._digest = digest_of(*model)
        self._trips: dict[int, Trip] = {}
        self._receipts: dict[int, Receipt] = {}
        self._incidents: list[Incident] = []
        self._round = 0
        self._begun = self._last_arrival = self._closed = time.perf_counter()
        self._report_seconds = nan
        self._carried_seconds = 0.0  # encoding of the last broadcast: between closing a round and evaluating it

    @property
    def layout(self) -> Layout:
        return self._layout

    def initial(self) -> tuple[FloatVector, FloatVector]:
        return self._model

    def present(self, least: int) -> list[int]:
        """Return the clients that are there; wait until there are `least` of them."""
        waited = time.perf_counter()
        while True:
            connected = self._courier.nodes()
            self._greet([node for node in connected if node not in self.roster.nodes and node not in self._refused])
            # The first time everyone who is there is waited for; later a newcomer takes part once it has answered.
            self._admit(self._patience_seconds if not self._present else 0.0)
            self._present = self.roster.present(connected)
            if len(self._present) >= least:
                return sorted(self._present)
            if time.perf_counter() - waited > self._patience_seconds:
                waited = time.perf_counter()
                log(WARNING, "%d of %d nodes are there; waiting", len(self._present), least)
            time.sleep(LOOK_FOR_NODES_SECONDS)

    def sync(self, syncs: Sequence[Sync], deadline: float = inf) -> list[Report]:
        self._begin(syncs)
        asked = {sync.client: self._content(sync) for sync in syncs}
        answers = self._exchange(asked, {sync.client: sync for sync in syncs}, {}, deadline)
        return [report for report, _ in answers if report is not None]

    def work(self, tasks: Sequence[Task], deadline: float = inf) -> Iterator[Update]:
        asked = {task.client: self._content(task) for task in tasks}
        for _, update in self._exchange(asked, {}, {task.client: task for task in tasks}, deadline):
            if update is not None:
                yield update

    def exchange(
        self, syncs: Sequence[Sync], tasks: Sequence[Task], deadline: float = inf
    ) -> Iterator[tuple[Report, Update]]:
        """Sync and task in one message, report and update in one reply."""
        self._begin(syncs)
        by_client = {task.client: task for task in tasks}
        asked = {sync.client: self._content(sync, by_client[sync.client]) for sync in syncs}
        for report, update in self._exchange(asked, {sync.client: sync for sync in syncs}, by_client, deadline):
            if report is not None and update is not None:
                yield report, update

    def close(self) -> Closing:
        now = time.perf_counter()
        server_seconds = max(now - max(self._last_arrival, self._begun), 0.0) + self._carried_seconds
        round_seconds = now - self._begun + self._carried_seconds
        self._closed, self._carried_seconds = now, 0.0
        receipts = tuple(
            _with_waiting(self._receipts[client], round_seconds - server_seconds) for client in sorted(self._receipts)
        )
        # A node that was turned away between two rounds is named in the next one.
        incidents = tuple(replace(incident, round=self._round) for incident in self._incidents)
        self._incidents.clear()
        return Closing(receipts, round_seconds, server_seconds, incidents, self._report_seconds)

    def evaluate(self, vector: FloatVector, buffers: FloatVector) -> tuple[float, float]:
        self._carried_seconds = time.perf_counter() - self._closed
        self.adopt(vector, buffers)
        return self._evaluate(vector, buffers)

    def adopt(self, vector: FloatVector, buffers: FloatVector) -> None:
        """Take this for the model that the present version stands for."""
        self._model = vector, buffers
        self._digest = digest_of(vector, buffers)

    def checkpoint(self) -> dict[str, NDArray[Any]]:
        """Return who the clients are and what is known of their links; what they hold is on their own disks."""
        wires = {str(client): [wire.up.to_json(), wire.down.to_json()] for client, wire in self.wires.items()}
        told = json.dumps({"run": self.run, "clients": self.roster.clients, "wires": wires})
        return {"nodes": np.frombuffer(told.encode(), np.uint8)}

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint: nodes are recognised by their names."""
        told = json.loads(saved["nodes"].tobytes())
        self.run = told["run"]
        self.roster = Roster(clients=dict(told["clients"]))
        self.wires = {int(client): Wire(*map(Link.from_json, links)) for client, links in told["wires"].items()}

    # One exchange ------------------------------------------------------------------------------------------------

    def _begin(self, syncs: Sequence[Sync]) -> None:
        self._begun = self._last_arrival = time.perf_counter()
        self._round = syncs[0].round if syncs else self._round
        self._report_seconds = nan
        self._receipts.clear()
        self.exchanges.clear()
        self._trips = {sync.client: Trip(download_bytes=0) for sync in syncs}

    def _content(self, *messages: Sync | Task) -> RecordDict:
        """Return the records of one node's message: its own, so that nothing leaks from one node to another."""
        content = RecordDict({RUN: ConfigRecord({"run": self.run, "digest": self._digest})})
        for message in messages:
            records.write(content, message)
        return content

    def _exchange(
        self, asked: Mapping[int, RecordDict], syncs: Mapping[int, Sync], tasks: Mapping[int, Task], deadline: float
    ) -> Iterator[Answer]:
        """Yield what the clients answer, in client order where that holds back little; note who did not."""
        nodes = {self._present[client]: client for client in asked if client in self._present}
        contents = {node: asked[client] for node, client in nodes.items()}
        group = str(self._round)
        carried = self._courier.carry(contents, group, self._begun + deadline)
        sent_bytes = {client: sync.nbytes for client, sync in syncs.items()}
        waiting = _InOrder(sorted(nodes.values()))
        repeated: set[int] = set()
        for reply in carried:
            client = nodes[reply.node]
            told = _told(reply)
            self._measure(client, reply, told, sent_bytes.get(client, 0))
            if "stale" in told and client in syncs and client not in repeated:
                # Another model than the server thought, or none: send the whole one, still in this round.
                repeated.add(client)
                full = self._full(syncs[client])
                sent_bytes[client] = full.nbytes
                messages = (full, tasks[client]) if client in tasks else (full,)
                carried.send(reply.node, self._content(*messages), group)
                continue
            yield from waiting.put(client, self._answer(client, reply, told, client in syncs, client in tasks))
        for node in carried.missing:
            self._note(nodes[node], "late", f"no answer within {deadline:.0f} s")
        for client in asked.keys() - set(nodes.values()):
            self._note(client, "lost", "the node has left")
        yield from waiting.rest()

    def _answer(self, client: int, reply: Reply, told: Mapping[str, Any], synced: bool, worked: bool) -> Answer:
        """Return what this reply holds; an incident if it is not what was asked for."""
        if reply.content is None:
            self._note(client, "lost", reply.error)
            return None, None
        for key, kind in (("stale", "lost"), ("failed", "refused")):
            if key in told:
                self._note(client, kind, str(told[key]))
                return None, None
        try:
            report = records.read(reply.content, Report) if synced else None
            update = records.read(reply.content, Update) if worked else None
        except PayloadError as error:
            self._note(client, "refused", str(error))
            return None, None
        # Who it is from is known by the message it replies to, not by what it says.
        report = None if report is None else replace(report, client=client)
        update = None if update is None else replace(update, client=client)
        if update is not None:
            self._receive(client, reply, update)
        return report, update

    def _measure(self, client: int, reply: Reply, told: Mapping[str, Any], sent_bytes: int) -> None:
        """Note the seconds of one message and its reply."""
        wire, trip = self.wires.setdefault(client, Wire()), self._trips.setdefault(client, Trip())
        steps = {name.replace("-", "_"): _seconds(told.get(name)) for name in STEPS}
        trip.compute_seconds += sum(steps.values())
        on_its_way = float(told["started-at"]) - reply.sent_at if "started-at" in told else nan
        if isfinite(on_its_way):
            wire.down.saw(sent_bytes, on_its_way)
        trip.download_bytes += sent_bytes
        trip.download_seconds += wire.down.seconds(sent_bytes, plain=0.0)
        self._last_arrival = max(self._last_arrival, reply.arrived_seconds)
        self.exchanges.append(
            {
                "round": self._round,
                "client": client,
                "name": self.roster.name(client),
                "download_bytes": sent_bytes,
                "upload_bytes": _payload_bytes(reply.content),
                "exchange_seconds": reply.arrived_seconds - reply.sent_seconds,
                "on_its_way_seconds": on_its_way if isfinite(on_its_way) else None,
                **steps,
                "process_seconds": _seconds(told.get("seconds")),
                "upload_seconds": reply.upload_seconds,
                "uplink_bps": wire.up.rate_bps,
                "downlink_bps": wire.down.rate_bps,
                "error": reply.error or None,
            }
        )

    def _receive(self, client: int, reply: Reply, update: Update) -> None:
        wire, trip = self.wires[client], self._trips[client]
        wire.up.saw(update.nbytes, reply.upload_seconds)
        extra = 8.0 * len(update.buffers)
        self._receipts[client] = Receipt(
            client=client,
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
            compute_seconds=trip.compute_seconds,
            upload_seconds=wire.up.seconds(update.nbytes, plain=reply.upload_seconds),
            waiting_seconds=0.0,  # known when the round is closed
            arrival_seconds=reply.arrived_seconds - self._begun,
        )

    def _full(self, sync: Sync) -> Sync:
        vector, buffers = self._model
        payloads = (Float32().encode(vector),)
        return replace(
            sync, base_version=-1, payloads=payloads, buffers=Float32().encode(buffers) if buffers.size else b""
        )

    def _note(self, client: int, kind: Any, reason: str) -> None:
        log(WARNING, "Round %d: %s (client %d) %s: %s", self._round, self.roster.name(client), client, kind, reason)
        self._incidents.append(Incident(client, self._round, kind, " ".join(reason.split())[:500]))

    # Newcomers ---------------------------------------------------------------------------------------------------

    def _greet(self, strangers: Sequence[int]) -> None:
        if strangers and self._greetings is None:
            until = time.perf_counter() + self._patience_seconds
            self._greetings = self._courier.carry({node: self._content() for node in strangers}, "hello", until)

    def _admit(self, wait_seconds: float) -> None:
        """Let in who has answered; with a wait, everyone who was greeted has that long."""
        if self._greetings is None:
            return
        for reply in self._greetings.within(wait_seconds):
            told = _told(reply)
            if not told:
                log(WARNING, "Node %d did not introduce itself: %s", reply.node, reply.error)
                continue
            member = self.roster.admit(reply.node, told)
            wire = self.wires.setdefault(member.client, Wire())
            wire.up.known_bps, wire.down.known_bps = _rate(told, "uplink-mbps"), _rate(told, "downlink-mbps")
            if told.get("layout") != layout_digest(self._layout):
                self._refused.add(reply.node)
                del self.roster.nodes[reply.node]
                self._note(
                    member.client,
                    "refused",
                    f"its model has {told.get('elements')} parameters in another layout than the "
                    f"{self._layout.elements} of the initial arrays",
                )
        if not self._greetings.missing or self._greetings.over:
            self._greetings = None


class _InOrder:
    """Hands answers on by client number; past HELD_BYTES whoever is first of those that are there."""

    def __init__(self, clients: Sequence[int]) -> None:
        self._expected = list(clients)
        self._held: dict[int, Answer] = {}
        self._bytes = 0

    def put(self, client: int, answer: Answer) -> Iterator[Answer]:
        self._held[client] = answer
        self._bytes += _nbytes(answer)
        while self._expected and (self._expected[0] in self._held or (self._bytes > HELD_BYTES and self._held)):
            first = self._expected[0] if self._expected[0] in self._held else min(self._held)
            self._expected.remove(first)
            yield self._take(first)

    def rest(self) -> Iterator[Answer]:
        for client in sorted(self._held):
            yield self._take(client)

    def _take(self, client: int) -> Answer:
        answer = self._held.pop(client)
        self._bytes -= _nbytes(answer)
        return answer


def _nbytes(answer: Answer) -> int:
    return 0 if answer[1] is None else answer[1].nbytes


def _told(reply: Reply) -> Mapping[str, Any]:
    told = reply.content.get(NODE) if reply.content is not None else None
    return told if isinstance(told, ConfigRecord) else {}


def _seconds(value: Any) -> float:
    """Return a duration that a node claims; 0 for what is none."""
    return float(value) if isinstance(value, int | float) and 0 <= value < inf else 0.0


def _rate(told: Mapping[str, Any], key: str) -> float | None:
    mbps = _seconds(told.get(key))
    return BYTES_PER_SECOND * mbps if mbps > 0 else None


def _payload_bytes(content: RecordDict | None) -> int:
    if content is None:
        return 0
    return sum(len(array.data) for arrays in content.array_records.values() for array in arrays.values())


def _with_waiting(receipt: Receipt, seconds: float) -> Receipt:
    busy = receipt.download_seconds + receipt.compute_seconds + receipt.upload_seconds
    return replace(receipt, waiting_seconds=max(seconds - busy, 0.0))
