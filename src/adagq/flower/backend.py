"""`rounds.Backend` over Flower: the clients are nodes, and the seconds are measured.

    node     on its way ─ download ─ receive ─ probe ─ train ─ encode ─ upload
    server   sent ──────────────────────────────────────────── looked … arrived

A node's own process measures what it computes; `timing` tells that and the seconds of the bytes from Flower's own,
which are counted as the server's. A round lasts from its first message until its updates are added up, and while the
next broadcast is encoded; evaluating the model stops the clock. `delivery` follows messages, `diary` says what happens.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from adagq.core.errors import PayloadError
from adagq.core.messages import Arrival, Incident, IncidentKind, Receipt, Report, Settlement, Sync, Task, Update
from adagq.core.vectors import FloatVector, Layout
from adagq.flower.admission import Admission
from adagq.flower.delivery import Delivery, Model, Posted, whole
from adagq.flower.diary import Diary
from adagq.flower.members import Member
from adagq.flower.node_metrics import collect_metrics, metrics_in
from adagq.flower.records import read
from adagq.flower.status import Status
from adagq.flower.timing import Timing, said_by
from adagq.flower.transport import Mailbox, Reply

Evaluate = Callable[[FloatVector, FloatVector], tuple[float, float]]


class Nodes:
    """One run's nodes. `model` is what the first round begins with; `run` names the run on the nodes' disks.

    `last_round` is the one whose tasks say so, if it is known; `train_config` is for learners that take it.
    """

    def __init__(
        self,
        grid: Grid,
        layout: Layout,
        model: Model,
        run: str,
        evaluate: Evaluate = lambda vector, buffers: (nan, nan),
        wait_seconds: float = 120.0,
        *,
        status: Status | None = None,
        last_round: int = 0,
        train_config: Mapping[str, Any] | None = None,
    ) -> None:
        self.layout = layout
        self.train_metrics: dict[int, MetricRecord] = {}  # of the clients whose updates arrived since it was cleared
        self.introductions: dict[int, Mapping[str, Any]] = {}  # client -> what it said of itself
        self.evaluation_bytes = 0  # that the last evaluation on nodes sent them: no round's
        self._evaluate = evaluate
        self._timing, self._diary = Timing(), Diary(lambda client: self._admission.members.name(client))
        self._diary.status = status or Status(None)
        self._delivery = Delivery(grid, run, model, self._timing, self._diary, lambda: self.now)
        self._delivery.last_round, self._delivery.train_config = last_round, dict(train_config or {})
        self._evaluations = Mailbox(grid)
        self._admission = Admission(Mailbox(grid), self._greeting, self._met, wait_seconds)
        self._synced: dict[int, float] = {}  # client -> when it was posted its last sync
        self._unreachable: deque[Incident] = deque()  # of nodes that have left, or may not take part
        self._receipts: dict[int, Receipt] = {}
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
        return self._delivery.model

    def initial_clients(self) -> tuple[int, ...]:
        """Nobody: the first model is the server's, and nodes get it as a whole."""
        return ()

    def clients(self, round: int, least: int) -> tuple[int, ...]:
        self._admission.layout = self.layout
        self._delivery.present = self._admission.present(least)
        return tuple(sorted(self._delivery.present))

    def adopt(self, vector: FloatVector, buffers: FloatVector, layout: Layout | None = None) -> None:
        """Take this for the model that the present version stands for."""
        self.layout = layout or self.layout
        self._delivery.adopt((vector, buffers))

    @property
    def evaluating(self) -> frozenset[int]:
        """Clients that are there and whose learners evaluate."""
        said = self.introductions
        return frozenset(client for client in self._delivery.present if said.get(client, {}).get("evaluates"))

    def evaluate_on(self, syncs: Iterable[Sync], config: ConfigRecord, seconds: float) -> dict[int, MetricRecord]:
        """Let clients evaluate the model that their syncs lead to; return the metrics of those who answer in time."""
        delivery = self._delivery
        metrics, self.evaluation_bytes = collect_metrics(
            self._evaluations,
            {delivery.present[sync.client]: sync for sync in syncs},
            lambda sync: delivery.content(delivery.digest, [sync], config),
            lambda sync: whole(sync, delivery.model),
            seconds,
        )
        return metrics

    def under_way(self) -> frozenset[int]:
        return self._delivery.clients

    def post(self, client: int, sync: Sync | None, task: Task | None, until: float = inf) -> None:
        if not self._under_way:
            self._begin(sync, task)
        if sync is not None:
            self._synced[client] = time.perf_counter()
        if not self._delivery.post(client, sync, task, until):
            self._unreachable.append(self._diary.incident(client, "lost", "the node has left"))

    def receive(self, until: float) -> Arrival | None:
        if self._unreachable:
            incident = self._unreachable.popleft()
            return Arrival(incident.client, self.now, incident=incident)
        received = self._delivery.receive(until)
        if received is None:
            return None
        posted, reply = received
        self._last_arrival = max(self._last_arrival, reply.arrived_seconds)
        return self._arrival(posted, reply, said_by(reply))

    def abandon(self, client: int, round: int) -> Incident:
        self._delivery.forget(client)
        return self._diary.incident(client, "late", f"no answer within {time.perf_counter() - self._began:.0f} s")

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
        plain = {
            "run": self._delivery.run,
            "clients": self._admission.members.clients,
            "timing": self._timing.to_json(),
        }
        return {"nodes": np.frombuffer(json.dumps(plain).encode(), np.uint8)}

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint: nodes are recognised by their names."""
        plain = json.loads(saved["nodes"].tobytes())
        self._delivery.run = plain["run"]
        self._admission.members.clients.update(plain["clients"])
        self._timing.restore(plain["timing"])

    def _begin(self, sync: Sync | None, task: Task | None) -> None:
        message = sync or task
        self._under_way = True
        self._diary.round = self._diary.round if message is None else message.round
        self._began = self._last_arrival = time.perf_counter()
        self._receipts.clear()
        self._timing.begin()

    def _arrival(self, posted: Posted, reply: Reply, said: Mapping[str, Any]) -> Arrival:
        """Return what this reply holds; an incident if it is not what was asked for."""
        client, seconds = posted.client, reply.arrived_seconds - self._zero
        if (incident := self._problem(client, reply, said)) is not None:
            return Arrival(client, seconds, incident=incident)
        try:
            report = None if posted.sync is None else read(_content_of(reply), Report)
            update = None if posted.task is None else read(_content_of(reply), Update)
        except PayloadError as error:
            return Arrival(client, seconds, incident=self._diary.incident(client, "refused", str(error)))
        # Who it is from is known by the message it replies to, not by what it says.
        report = None if report is None else replace(report, client=client)
        update = None if update is None else replace(update, client=client)
        if update is not None:
            self.train_metrics[client] = metrics_in(_content_of(reply), update.examples)
            self._receipts[client] = self._timing.receipt(update, reply.arrived_seconds - self._synced[client])
        self._diary.note(client, "waiting")
        return Arrival(client, seconds, report, update)

    def _problem(self, client: int, reply: Reply, said: Mapping[str, Any]) -> Incident | None:
        if reply.content is None:
            return self._diary.incident(client, "lost", reply.error)
        kinds: dict[str, IncidentKind] = {"crashed": "failed", "stale": "lost", "diverged": "diverged"}
        key = next((key for key in kinds if key in said), None)
        return None if key is None else self._diary.incident(client, kinds[key], str(said[key]))

    def _greeting(self) -> RecordDict:
        return self._delivery.content(self._delivery.digest, [])

    def _met(self, member: Member, reply: Reply | None, problem: str) -> None:
        if reply is not None:
            self.introductions[member.client] = said_by(reply)
            self._timing.meet(member.client, reply)
        else:
            self._unreachable.append(self._diary.incident(member.client, "refused", problem))


def _content_of(reply: Reply) -> RecordDict:
    assert reply.content is not None, "a reply without content was dealt with before"
    return reply.content
