"""`rounds.Backend` over Flower: the clients are nodes, and the seconds are measured.

    node     on its way ─ download ─ receive ─ probe ─ train ─ encode ─ upload
    server   sent ──────────────────────────────────────────── looked … arrived

A node's own process measures what it computes; `timing` tells that and the seconds of the bytes from Flower's own,
which are counted as the server's. A round lasts from its first message until its updates are added up, and while the
next broadcast is encoded; evaluating the model stops the clock.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from logging import WARNING
from math import inf, nan
from typing import Any, Final

import numpy as np
from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log
from numpy.typing import NDArray

from adagq.codecs import Float32
from adagq.core.errors import PayloadError
from adagq.core.messages import Arrival, Incident, IncidentKind, Receipt, Report, Settlement, Sync, Task, Update
from adagq.core.vectors import FloatVector, Layout
from adagq.flower.admission import Admission
from adagq.flower.members import Member
from adagq.flower.names import CONFIG, EVALUATE, LAST, ROUND, RUN
from adagq.flower.node_metrics import collect_metrics, metrics_in
from adagq.flower.records import read, write
from adagq.flower.status import Status
from adagq.flower.storage import digest_of
from adagq.flower.timing import Timing, said_by
from adagq.flower.transport import Mailbox, Reply
from adagq.server.validation import printable, printable_lines

Model = tuple[FloatVector, FloatVector]
Evaluate = Callable[[FloatVector, FloatVector], tuple[float, float]]
MOST_LOST: Final = 3  # messages of one client and round that are asked again, within the deadline


@dataclass(frozen=True, slots=True)
class _Posted:
    """A message under way."""

    client: int
    sync: Sync | None
    task: Task | None
    until: float
    sent_bytes: int
    model: Model  # that the sync leads to: the server's may have moved on when the node answers
    digest: str
    repeated: bool = False  # with the whole model, since the node held another one
    lost: int = 0  # times that the message or its reply was lost on its way

    @property
    def phase(self) -> int:
        return 2 if self.sync is None else 1


class Nodes:
    """One run's nodes. `model` is what the first round begins with; `run` names the run on the nodes' disks."""

    def __init__(
        self,
        grid: Grid,
        layout: Layout,
        model: Model,
        run: str,
        evaluate: Evaluate = lambda vector, buffers: (nan, nan),
        wait_seconds: float = 120.0,
    ) -> None:
        self.run = run
        self.layout = layout
        self.last_round = 0  # whose tasks say so, if it is known
        self.status = Status(None)
        self.train_config: dict[str, Any] = {}  # for learners that take it
        self.train_metrics: dict[int, MetricRecord] = {}  # of the clients whose updates arrived since it was cleared
        self.introductions: dict[int, Mapping[str, Any]] = {}  # client -> what it said of itself
        self._evaluate = evaluate
        self._mailbox, self._evaluations = Mailbox(grid, self._sending), Mailbox(grid)
        self._admission = Admission(Mailbox(grid), lambda: self._content(self._digest), self._met, wait_seconds)
        self._timing = Timing()
        self._present: dict[int, int] = {}  # client -> node
        self._model = model
        self._digest = digest_of(*model)
        self._posted: dict[int, _Posted] = {}  # by the ticket of its message
        self._synced: dict[int, float] = {}  # client -> when it was posted its last sync
        self._unreachable: deque[Incident] = deque()  # of nodes that have left, or may not take part
        self._receipts: dict[int, Receipt] = {}
        self._traced: set[int] = set()  # clients whose traceback is in the log
        self._round = 0
        self._zero = time.perf_counter()
        self._began = self._last_arrival = self._closed = self._zero
        self._under_way = False  # whether anything was posted since the last settlement
        self._carried_seconds = 0.0  # encoding of the last broadcast: between settling a round and evaluating it

    @property
    def now(self) -> float:
        return time.perf_counter() - self._zero

    @property
    def exchanges(self) -> list[dict[str, Any]]:
        """The messages of this round, as measured."""
        return self._timing.exchanges

    def agree(self, least: int) -> Layout:
        """Return how the nodes flatten the model, once `least` have introduced themselves."""
        return self._admission.agree(self.layout, least)

    def initial(self) -> Model:
        return self._model

    def initial_clients(self) -> tuple[int, ...]:
        """Nobody: the first model is the server's, and nodes get it as a whole."""
        return ()

    def clients(self, round: int, least: int) -> tuple[int, ...]:
        self._admission.layout = self.layout
        self._present = self._admission.present(least)
        return tuple(sorted(self._present))

    def adopt(self, vector: FloatVector, buffers: FloatVector, layout: Layout | None = None) -> None:
        """Take this for the model that the present version stands for."""
        self.layout = layout or self.layout
        self._model = vector, buffers
        self._digest = digest_of(vector, buffers)

    @property
    def evaluating(self) -> frozenset[int]:
        """Clients that are there and whose learners evaluate."""
        return frozenset(client for client in self._present if self.introductions.get(client, {}).get("evaluates"))

    def evaluate_on(self, syncs: Iterable[Sync], config: ConfigRecord, seconds: float) -> dict[int, MetricRecord]:
        """Let clients evaluate the model that their syncs lead to; return the metrics of those who answer in time."""
        return collect_metrics(
            self._evaluations,
            {self._present[sync.client]: sync for sync in syncs},
            lambda sync: self._content(self._digest, sync, evaluate=config),
            lambda sync: self._full(sync, self._model),
            seconds,
        )

    def under_way(self) -> frozenset[int]:
        return frozenset(posted.client for posted in self._posted.values())

    def post(self, client: int, sync: Sync | None, task: Task | None, until: float = inf) -> None:
        if not self._under_way:
            self._begin(sync, task)
        if sync is not None:
            self._synced[client] = time.perf_counter()
        nbytes = 0 if sync is None else sync.nbytes
        self._send(_Posted(client, sync, task, until, nbytes, self._model, self._digest))

    def receive(self, until: float) -> Arrival | None:
        while True:
            if self._unreachable:
                incident = self._unreachable.popleft()
                return Arrival(incident.client, self.now, incident=incident)
            # Deadlines are for the clients: Flower's own part comes on top.
            phase = max((posted.phase for posted in self._posted.values()), default=1)
            reply = self._mailbox.receive(until + self._timing.usual_seconds(phase) - self.now)
            if reply is None:
                return None
            posted = self._posted.pop(reply.ticket)
            self._timing.measure(self._round, posted.phase, posted.client, self._name(posted.client), reply, posted)
            self._last_arrival = max(self._last_arrival, reply.arrived_seconds)
            said = said_by(reply)
            if "stale" in said and posted.sync is not None and not posted.repeated:
                # Another model than the server thought, or none: send the whole one, still in this round.
                full = self._full(posted.sync, posted.model)
                self._send(replace(posted, sync=full, sent_bytes=full.nbytes, repeated=True))
                continue
            if reply.broken_off and posted.lost < MOST_LOST and self._can_be_asked(posted):
                log(WARNING, "Round %d: %s is asked again: %s", self._round, self._name(posted.client), reply.error)
                self._send(replace(posted, lost=posted.lost + 1))
                continue
            return self._arrival(posted, reply, said)

    def abandon(self, client: int, round: int) -> Incident:
        for ticket in [ticket for ticket, posted in self._posted.items() if posted.client == client]:
            self._mailbox.forget(ticket)
            del self._posted[ticket]
        return self._incident(client, "late", f"no answer within {time.perf_counter() - self._began:.0f} s")

    def settle(self) -> Settlement:
        now = time.perf_counter()
        last_arrival = max(self._last_arrival, self._began)
        alone_seconds = max(now - last_arrival, 0.0) + self._carried_seconds
        server_seconds = alone_seconds + min(self._timing.own_seconds(), last_arrival - self._began)
        round_seconds = now - self._began + self._carried_seconds
        self._closed, self._carried_seconds, self._under_way = now, 0.0, False
        until_seconds = round_seconds - server_seconds
        receipts = tuple(
            self._timing.settled(receipt, until_seconds + max(self._began - self._synced[client], 0.0))
            for client, receipt in sorted(self._receipts.items())
        )
        self._receipts.clear()
        return Settlement(receipts, round_seconds, server_seconds)

    def evaluate(self, vector: FloatVector, buffers: FloatVector) -> tuple[float, float]:
        self._carried_seconds = time.perf_counter() - self._closed
        self.adopt(vector, buffers)
        return self._evaluate(vector, buffers)

    def checkpoint(self) -> dict[str, NDArray[Any]]:
        """Return who the clients are and what is known of their links; what they hold is on their own disks."""
        plain = {"run": self.run, "clients": self._admission.members.clients, "timing": self._timing.to_json()}
        return {"nodes": np.frombuffer(json.dumps(plain).encode(), np.uint8)}

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint: nodes are recognised by their names."""
        plain = json.loads(saved["nodes"].tobytes())
        self.run = plain["run"]
        self._admission.members.clients.update(plain["clients"])
        self._timing.restore(plain["timing"])

    def _begin(self, sync: Sync | None, task: Task | None) -> None:
        message = sync or task
        self._under_way = True
        self._round = self._round if message is None else message.round
        self._began = self._last_arrival = time.perf_counter()
        self._receipts.clear()
        self._timing.begin()

    def _send(self, posted: _Posted) -> None:
        node = self._present.get(posted.client)
        if node is None:
            self._unreachable.append(self._incident(posted.client, "lost", "the node has left"))
            return
        messages = [message for message in (posted.sync, posted.task) if message is not None]
        seconds = posted.until + self._timing.usual_seconds(posted.phase) - self.now
        self.status.note(self._round, posted.client, self._name(posted.client), "computing")
        ticket = self._mailbox.send(node, self._content(posted.digest, *messages), str(self._round), seconds)
        self._posted[ticket] = posted

    def _sending(self, ticket: int) -> None:
        """Note, from the thread that pulls it, that a reply has begun to arrive."""
        posted = self._posted.get(ticket)
        if posted is not None:
            self.status.note(self._round, posted.client, self._name(posted.client), "sending")

    def _can_be_asked(self, posted: _Posted) -> bool:
        """Whether there is time left for this message and its node is connected."""
        return self.now < posted.until and self._present.get(posted.client) in self._mailbox.nodes()

    def _content(self, digest: str, *messages: Sync | Task, evaluate: ConfigRecord | None = None) -> RecordDict:
        """Return the records of one node's message: its own, so that nothing leaks from one node to another."""
        run: dict[str, Any] = {"run": self.run, "digest": digest}
        if any(isinstance(message, Task) and message.round == self.last_round for message in messages):
            run[LAST] = True
        content = RecordDict({RUN: ConfigRecord(run)})
        for message in messages:
            write(content, message)
            if isinstance(message, Task) and self.train_config:
                content[CONFIG] = ConfigRecord({**self.train_config, ROUND: message.round})
        if evaluate is not None:
            content[EVALUATE] = evaluate
        return content

    def _arrival(self, posted: _Posted, reply: Reply, said: Mapping[str, Any]) -> Arrival:
        """Return what this reply holds; an incident if it is not what was asked for."""
        client, seconds = posted.client, reply.arrived_seconds - self._zero
        if (incident := self._problem(client, reply, said)) is not None:
            return Arrival(client, seconds, incident=incident)
        try:
            report = None if posted.sync is None else read(_content_of(reply), Report)
            update = None if posted.task is None else read(_content_of(reply), Update)
        except PayloadError as error:
            return Arrival(client, seconds, incident=self._incident(client, "refused", str(error)))
        # Who it is from is known by the message it replies to, not by what it says.
        report = None if report is None else replace(report, client=client)
        update = None if update is None else replace(update, client=client)
        if update is not None:
            self.train_metrics[client] = metrics_in(_content_of(reply), update.examples)
            self._receipts[client] = self._timing.receipt(update, reply.arrived_seconds - self._synced[client])
        self.status.note(self._round, client, self._name(client), "waiting")
        return Arrival(client, seconds, report, update)

    def _problem(self, client: int, reply: Reply, said: Mapping[str, Any]) -> Incident | None:
        if reply.content is None:
            return self._incident(client, "lost", reply.error)
        kinds: dict[str, IncidentKind] = {"crashed": "failed", "stale": "lost", "diverged": "diverged"}
        key = next((key for key in kinds if key in said), None)
        return None if key is None else self._incident(client, kinds[key], str(said[key]))

    def _full(self, sync: Sync, model: Model) -> Sync:
        vector, buffers = model
        payloads = (Float32().encode(vector),)
        return replace(
            sync, base_version=-1, payloads=payloads, buffers=Float32().encode(buffers) if buffers.size else b""
        )

    def _met(self, member: Member, reply: Reply | None, problem: str) -> None:
        if reply is not None:
            self.introductions[member.client] = said_by(reply)
            self._timing.meet(member.client, reply)
        else:
            self._unreachable.append(self._incident(member.client, "refused", problem))

    def _name(self, client: int) -> str:
        return self._admission.members.name(client)

    def _incident(self, client: int, kind: IncidentKind, reason: str) -> Incident:
        last = printable(reason.strip().rpartition("\n")[2])
        shown = printable_lines(reason.rstrip()) if kind == "failed" and client not in self._traced else last
        self._traced |= {client} if kind == "failed" else set()
        log(WARNING, "Round %d: %s (client %d) %s: %s", self._round, self._name(client), client, kind, shown)
        self.status.note(self._round, client, self._name(client), kind)
        return Incident(client, self._round, kind, last)


def _content_of(reply: Reply) -> RecordDict:
    assert reply.content is not None, "a reply without content was dealt with before"
    return reply.content
