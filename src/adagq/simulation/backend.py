"""Simulation: real training in worker processes, seconds from the virtual clock.

`receive` hands out arrivals in the order of virtual time. Training runs in parallel all the same: when a task is
posted, the second in which its payload will be ready is known, though not yet how long the upload takes; so an arrival
may be handed out as soon as no unfinished task could be earlier (conservative look-ahead). The order is that of
(seconds, client), whoever finished first on this machine: rows do not depend on the number of workers.

The server does not know who is gone: it waits for a client that will not answer until its deadline or, without one, for
as long as the client would have computed.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf, isfinite, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.client.learner import Population, least_epochs, sizes_of
from adagq.client.replica import Replica
from adagq.codecs import Float32
from adagq.core.codec import Arrays
from adagq.core.messages import Arrival, Incident, Report, Settlement, Sync, Task, Update
from adagq.core.vectors import FloatVector, Layout
from adagq.methods.table import Method
from adagq.simulation.accounts import Accounts
from adagq.simulation.clock import Scale, Timer, Visit
from adagq.simulation.events import Event, diverged, without_payloads
from adagq.simulation.fleet import Fleet
from adagq.simulation.pool import Pool
from adagq.simulation.replicas import Replicas
from adagq.simulation.states import States
from adagq.simulation.under_way import pack, unpack

TEST_CHUNK = 1000  # test samples per job; the same for any number of workers, so that sums are the same


class Simulated:
    """A `rounds.Backend` over a prepared pool. One object serves one method with one seed."""

    def __init__(
        self,
        pool: Pool,
        population: Population,
        fleet: Fleet,
        method: Method,
        seed: int,
        payload_scale: float = 1.0,
    ) -> None:
        self._examples, held_out = sizes_of(population)
        # Counting operations takes torch a while: only for devices whose speed is given in them.
        fleet = fleet.calibrated(self._examples, nan if fleet.timed else population.flops_per_sample)
        self._pool = pool
        self._population = population
        self.fleet = fleet.with_free_links() if method.free_links else fleet
        self._timer = Timer(
            fleet=self.fleet,
            scale=Scale(payload_scale),
            elements=population.layout.elements * payload_scale,
            examples=self._examples,
            held_out=held_out,
            decodes_downlink=not isinstance(method.downlink, Float32),
            encodes_uplink=not isinstance(method.uplink, Float32),
            parts=least_epochs(population.learner(0)) < 1.0,
        )
        self.now = 0.0
        self._accounts = Accounts()
        self._first = Replica.first(0, *population.initial(seed))
        self._replicas = Replicas(pool, self._first)
        self._states = States()
        self._round = 0  # the newest that anything was posted in
        self._attempts: dict[int, int] = {}  # client -> attempt, of that round
        self._visits: dict[int, Visit] = {}
        self._events: dict[int, Event] = {}  # client -> what it will do next

    @property
    def layout(self) -> Layout:
        return self._population.layout

    def initial(self) -> tuple[FloatVector, FloatVector]:
        return self._first.vector, self._first.buffers

    def initial_clients(self) -> tuple[int, ...]:
        return self.clients(round=1, least=0)

    def clients(self, round: int, least: int) -> tuple[int, ...]:
        return self.fleet.present(round)

    def under_way(self) -> frozenset[int]:
        return frozenset(self._events)

    def post(self, client: int, sync: Sync | None, task: Task | None, until: float = inf) -> None:
        self._accounts.exchange(1 if sync is not None else 2)
        if sync is not None:
            self._replicas.follow(sync, self._events)
            if sync.round > self._round:
                self._round = sync.round
                self._attempts.clear()
            self._attempts[client] = self._attempts.get(client, -1) + 1 if sync.round == self._round else 0
            self._visits[client] = self._timer.visit(sync, self.now, self._attempts[client])
        self._begin(self._visits[client], sync, task)

    def _begin(self, visit: Visit, sync: Sync | None, task: Task | None) -> None:
        """Let a client do what it was posted, as far as it gets."""
        visit = self._visits[visit.client] = replace(visit, task=task)
        if self._fails(visit) == "report" or self._leaves(visit) < visit.ready:
            self._lose(visit, "did not report", 1 if task is None else task.epochs)
        elif task is not None:
            self._post_task(visit, sync, task)
        elif sync is not None:
            self._post_sync(visit, sync)

    def receive(self, until: float) -> Arrival | None:
        while (event := self._next(until)) is not None and event.seconds <= until:
            if event.job is not None:
                self._finish_job()
                continue
            self.now = max(self.now, event.seconds)
            del self._events[event.client]
            if event.state is not None:
                self._states[event.client] = event.state
            if event.arrival is None:
                return Arrival(event.client, self.now, incident=event.incident)
            if event.receipt is not None:
                self._accounts.receive(event.client, event.seconds, event.receipt)
            return event.arrival
        if isfinite(until):
            self.now = max(self.now, until)
        return None

    def abandon(self, client: int, round: int) -> Incident:
        event = self._events.pop(client, None)
        if event is None:
            return Incident(client, round, "lost", "did not answer")
        visit = self._visits[client]
        if event.job is not None and event.incident is None:
            event = self._result(event, self._pool.wait([event.job])[1])
        if event.incident is not None:
            if event.state is not None:
                self._states[client] = event.state
            return event.incident
        if event.state is not None and event.arrival is not None and event.arrival.update is not None:
            self._states[client] = self._undelivered(visit, event.state, event.arrival.update)
        waited, took = self.now - visit.posted, event.seconds - visit.posted
        what = "report" if event.arrival is None or event.arrival.update is None else "update"
        return Incident(client, round, "late", f"{what} after {took:.4g} s, asked for by {waited:.4g} s")

    @property
    def edges(self) -> tuple[int, int]:
        """How many edge servers there are, and the levels of their payloads."""
        return self.fleet.edges, self.fleet.edge_levels

    def edges_sent(self, nbytes: Mapping[int, int]) -> None:
        """Note what edge servers send to the server in this round; `settle` counts their seconds."""
        self._accounts.edges_sent(nbytes)

    def settle(self) -> Settlement:
        settlement = self._accounts.settle(self._timer, self.now, self._visits)
        self.now = self._accounts.settled
        # Of clients that are at rest nothing is kept but their codec's state.
        self._visits = {client: self._visits[client] for client in self._events}
        return settlement

    def evaluate(self, vector: FloatVector, buffers: FloatVector) -> tuple[float, float]:
        model = self._pool.publish(Replica.first(-1, vector, buffers))
        total = self._population.test_samples
        chunks = [(first, min(first + TEST_CHUNK, total)) for first in range(0, total, TEST_CHUNK)]
        correct = loss = 0.0
        for (first, last), score in zip(chunks, self._pool.run("evaluate", model, chunks), strict=True):
            correct += round(score[0] * (last - first))
            loss += score[1] * (last - first)
        self._pool.retire(model)
        return correct / total, loss / total

    @property
    def state_bytes(self) -> int:
        """Return the bytes of the largest state that a client's codec keeps."""
        return self._states.largest_bytes

    def checkpoint(self) -> dict[str, NDArray[Any]]:
        """Return what the next round needs: the models that clients hold, the time, and their states."""
        newest = self._replicas.newest
        return {
            "vector": newest.vector,
            "buffers": newest.buffers,
            "version": np.array(newest.version),
            "seconds": np.array(self.now),
            **pack((self._visits[client], self._replicas.held_by(client)) for client in sorted(self._events)),
            **self._states.pack(),
        }

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        newest = Replica.first(int(saved["version"]), saved["vector"], saved["buffers"])
        self._replicas = Replicas(self._pool, newest)
        self.now = self._accounts.settled = float(saved["seconds"])
        self._states.unpack(saved)
        for visit, begun_with in unpack(saved):
            self._replicas.hold(visit.client, begun_with)
            version = begun_with.version
            self._begin(visit, Sync(visit.client, visit.round, version, version, (), b""), visit.task)

    def _post_sync(self, visit: Visit, sync: Sync) -> None:
        reported = self._timer.reported(visit)
        if not sync.probing:
            report = Report(visit.client, visit.round, self._examples[visit.client])
            self._expect(Event(reported, visit.client, Arrival(visit.client, reported, report)))
            return
        job = self._pool.submit("probe", self._replicas.model_of(visit.client), without_payloads(sync))
        self._expect(Event(reported, visit.client, job=job))

    def _post_task(self, visit: Visit, sync: Sync | None, task: Task) -> None:
        visit = replace(visit, train_seconds=self._timer.train_seconds(visit.client, task.epochs, visit.round))
        encoded, seconds = self._timer.encoded(visit, self.now if sync is None else None)
        visit = self._visits[visit.client] = replace(visit, encoded=encoded, encode_seconds=seconds)
        if self._fails(visit) == "training" or self._leaves(visit) < visit.trained:
            self._lose(visit, "failed in training", task.epochs)
            return
        model, state = self._replicas.model_of(visit.client), self._states.get(visit.client, {})
        task = self._with_real_budget(task)
        if sync is not None and sync.probing:
            job = self._pool.submit("exchange", model, without_payloads(sync), task, state)
        else:
            job = self._pool.submit("work", model, task, state)
        # A report that was on its way, or travels with the update.
        before = self._events.get(visit.client)
        report = before.arrival.report if before is not None and before.arrival is not None else None
        if sync is not None and not sync.probing:
            report = Report(visit.client, visit.round, self._examples[visit.client])
        waiting = Arrival(visit.client, encoded, report)
        # Training that diverges is heard of before anything is encoded: nothing comes earlier than that.
        self._expect(Event(visit.trained, visit.client, waiting, job=job))

    def _next(self, until: float) -> Event | None:
        """Return the earliest event; a client that is lost is heard of only if nothing else ends the waiting."""
        lost_too = until == inf
        awaited = (event for event in self._events.values() if lost_too or event.incident is None)
        return min(awaited, key=lambda event: event.key, default=None)

    def _finish_job(self) -> None:
        """Wait for any job and put what it made in its place."""
        jobs = {event.job: event for event in self._events.values() if event.job is not None}
        job, result = self._pool.wait([number for number in jobs if number is not None])
        event = jobs[job]
        self._events[event.client] = self._result(event, result)

    def _result(self, event: Event, result: Any) -> Event:
        visit = self._visits[event.client]
        if isinstance(result, Report):
            return Event(event.seconds, event.client, Arrival(event.client, event.seconds, result))
        *reported, update, state = result
        report = reported[0] if reported else None if event.arrival is None else event.arrival.report
        if update is None:
            return Event(
                visit.trained, event.client, Arrival(event.client, visit.trained, report, incident=diverged(visit))
            )
        receipt = self._timer.receipt(visit, update)
        arrived = visit.encoded + receipt.upload_seconds
        if self._fails(visit) == "upload" or self._leaves(visit) < arrived:
            lost = self._lost(visit, "failed in its upload", visit.task.epochs if visit.task else 1)
            return replace(lost, state=self._undelivered(visit, state, update))
        arrival = Arrival(event.client, arrived, report, update)
        return Event(arrived, event.client, arrival, receipt=receipt, state=state)

    def _undelivered(self, visit: Visit, state: Arrays, update: Update) -> Arrays:
        """Return the state of a client whose update was trained and did not arrive: it goes with the next."""
        codec = visit.task.codec if visit.task is not None else None
        undelivered = getattr(codec, "undelivered", None)
        before: Arrays = self._states.get(visit.client, {})
        if undelivered is None:
            return before
        kept: Arrays = undelivered(state, update.payload, self._replicas.held_by(visit.client).aggregate)
        return kept

    def _lose(self, visit: Visit, reason: str, epochs: float) -> None:
        self._expect(self._lost(visit, reason, epochs))

    def _lost(self, visit: Visit, reason: str, epochs: float) -> Event:
        seconds = visit.ready + self._timer.train_seconds(visit.client, epochs, visit.round)
        incident = Incident(visit.client, visit.round, "lost", reason)
        return Event(seconds, visit.client, incident=incident)

    def _expect(self, event: Event) -> None:
        self._events[event.client] = event

    def _fails(self, visit: Visit) -> str | None:
        return self.fleet.clients[visit.client].reliability.fails(visit.round, visit.attempt)

    def _leaves(self, visit: Visit) -> float:
        return self.fleet.clients[visit.client].reliability.leaves(visit.posted)

    def _with_real_budget(self, task: Task) -> Task:
        if task.budget_bytes is None:
            return task
        payloads = 1 + bool(self.layout.buffer_elements)
        return replace(task, budget_bytes=self._timer.scale.real_bytes(task.budget_bytes, payloads))
