"""`federation.Backend` over Flower: the clients are nodes, and the seconds are measured.

    node     on its way ─ download ─ receive ─ probe ─ train ─ encode ─ upload
    server   sent ──────────────────────────────────────────── looked … arrived

A node's own process measures what it computes; `timing` tells that and the seconds of the bytes from Flower's own,
which are counted as the server's. The clock runs from the moment a round's first message is made until its updates are
added up, and while the next broadcast is encoded; evaluating the model stops it.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from logging import WARNING
from math import inf, nan
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from flwr.supercore import log
from numpy.typing import NDArray

from adagq.backends.flower import records
from adagq.backends.flower.courier import Courier, Reply
from adagq.backends.flower.lobby import Lobby
from adagq.backends.flower.node import RUN
from adagq.backends.flower.ordering import Answer, InOrder
from adagq.backends.flower.roster import Member
from adagq.backends.flower.shelf import digest_of
from adagq.backends.flower.timing import Timing, told_by
from adagq.codecs import Float32
from adagq.errors import PayloadError
from adagq.messages import Closing, Incident, IncidentKind, Receipt, Report, Sync, Task, Update
from adagq.vectors import FloatVector, Layout

Evaluate = Callable[[FloatVector, FloatVector], tuple[float, float]]


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
        self.run = run
        self._lobby = Lobby(courier, layout, self._content, self._met, patience_seconds)
        self._timing = Timing()
        self._present: dict[int, int] = {}  # client -> node
        self._model = model
        self._digest = digest_of(*model)
        self._receipts: dict[int, Receipt] = {}
        self._incidents: list[Incident] = []
        self._round = 0
        self._begun = self._last_arrival = self._closed = time.perf_counter()
        self._report_seconds = nan
        self._carried_seconds = 0.0  # encoding of the last broadcast: between closing a round and evaluating it

    @property
    def exchanges(self) -> list[dict[str, Any]]:
        """The messages of this round, as measured."""
        return self._timing.exchanges

    @property
    def layout(self) -> Layout:
        return self._layout

    def initial(self) -> tuple[FloatVector, FloatVector]:
        return self._model

    def present(self, least: int) -> list[int]:
        """Return the clients that are there; wait until there are `least` of them."""
        self._present = self._lobby.present(least)
        return sorted(self._present)

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
        last_arrival = max(self._last_arrival, self._begun)
        alone_seconds = max(now - last_arrival, 0.0) + self._carried_seconds
        server_seconds = alone_seconds + min(self._timing.own_seconds(), last_arrival - self._begun)
        round_seconds = now - self._begun + self._carried_seconds
        self._closed, self._carried_seconds = now, 0.0
        until_seconds = round_seconds - server_seconds
        receipts = tuple(self._timing.settled(receipt, until_seconds) for _, receipt in sorted(self._receipts.items()))
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
        told = json.dumps({"run": self.run, "clients": self._lobby.roster.clients, "timing": self._timing.to_json()})
        return {"nodes": np.frombuffer(told.encode(), np.uint8)}

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint: nodes are recognised by their names."""
        told = json.loads(saved["nodes"].tobytes())
        self.run = told["run"]
        self._lobby.roster.clients.update(told["clients"])
        self._timing.restore(told["timing"])

    def _begin(self, syncs: Sequence[Sync]) -> None:
        self._begun = self._last_arrival = time.perf_counter()
        self._round = syncs[0].round if syncs else self._round
        self._report_seconds = nan
        self._receipts.clear()
        self._timing.begin()

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
        group, phase = str(self._round), 1 if syncs else 2
        # Deadlines are for the clients: Flower's own part comes on top.
        carried = self._courier.carry(contents, group, self._begun + self._timing.usual_seconds(phase) + deadline)
        sent_bytes = {client: sync.nbytes for client, sync in syncs.items()}
        waiting = InOrder(sorted(nodes.values()))
        repeated: set[int] = set()
        for reply in carried:
            client = nodes[reply.node]
            told = told_by(reply)
            self._timing.measure(self._round, phase, client, self._name(client), reply, sent_bytes.get(client, 0))
            self._last_arrival = max(self._last_arrival, reply.arrived_seconds)
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
        if "stale" in told:
            self._note(client, "lost", str(told["stale"]))
            return None, None
        if "failed" in told:
            self._note(client, "refused", str(told["failed"]))
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
            self._receipts[client] = self._timing.receipt(update, reply.arrived_seconds - self._begun)
        return report, update

    def _full(self, sync: Sync) -> Sync:
        vector, buffers = self._model
        payloads = (Float32().encode(vector),)
        return replace(
            sync, base_version=-1, payloads=payloads, buffers=Float32().encode(buffers) if buffers.size else b""
        )

    def _met(self, member: Member, reply: Reply, problem: str) -> None:
        self._timing.meet(member.client, reply)
        if problem:
            self._note(member.client, "refused", problem)

    def _name(self, client: int) -> str:
        return self._lobby.roster.name(client)

    def _note(self, client: int, kind: IncidentKind, reason: str) -> None:
        log(WARNING, "Round %d: %s (client %d) %s: %s", self._round, self._name(client), client, kind, reason)
        self._incidents.append(Incident(client, self._round, kind, " ".join(reason.split())[:500]))
