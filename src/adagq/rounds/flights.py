"""Who is under way in a loop without a barrier: what each client was posted, until when, and what came of it.

A client has at most one task under way, and at most one update in a step: it is posted again once the model has moved.
Nobody waits for a client that is slow or lost, so the deadline only frees its place. It is a factor times what the
client itself needed lately (at least what most need), longer for a download larger than any of those:

    first trip of a client                  OUTLIER times what most needed, once that is known
    k deadlines missed in a row             min(2^k, OUTLIER) times its own trip, or the slowest's while it has none

So a lost client is asked again soon, and one that became slower is not late for ever. All of it is plain JSON in
`State.loop`, so a run can be left while clients train; a client that the backend no longer waits for is posted anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from statistics import median
from typing import Any, Final

from adagq.client.tasks import task_from_plain, task_to_plain
from adagq.core.messages import Arrival, Receipt, Settlement, Sync, Task, Update
from adagq.core.seeds import generator
from adagq.methods.table import Method
from adagq.rounds.attempt import Attempt
from adagq.rounds.backend import Backend
from adagq.rounds.schedule import Schedule
from adagq.rounds.state import State
from adagq.server.deadlines import OUTLIER
from adagq.server.validation import Validator

FORGETTING: Final = 0.8  # a trip: how fast a client's longest one fades


@dataclass(frozen=True, slots=True)
class Flight:
    """One client's message and the second it was posted. The validator knows what was asked for."""

    sync: Sync
    task: Task
    sync_bytes: int
    posted: float
    until: float  # inf: as long as `Flights` knows of no trip to derive it from
    validator: Validator

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.sync.version,
            "round": self.sync.round,
            "sync_bytes": self.sync_bytes,
            "posted": self.posted,
            "until": self.until if isfinite(self.until) else None,
            "task": task_to_plain(self.task),
        }


@dataclass
class Flights:
    """All clients that are under way."""

    method: Method
    backend: Backend
    schedule: Schedule
    state: State
    arrivals: int = 0  # updates that counted since the run began
    flying: dict[int, Flight] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)  # client -> its longest trip lately
    sync_bytes: dict[int, int] = field(default_factory=dict)  # client -> what it downloaded last
    missed: dict[int, int] = field(default_factory=dict)  # client -> deadlines that it missed since

    @classmethod
    def of(cls, method: Method, backend: Backend, schedule: Schedule, state: State) -> "Flights":
        """Return the flights that a state left, those that the backend still waits for."""
        saved = state.loop
        flights = cls(method, backend, schedule, state, saved.get("arrivals", 0))
        flights.seconds = {int(client): seconds for client, seconds in saved.get("seconds", {}).items()}
        flights.sync_bytes = {int(client): nbytes for client, nbytes in saved.get("sync_bytes", {}).items()}
        flights.missed = {int(client): count for client, count in saved.get("missed", {}).items()}
        waiting = backend.under_way()
        for client, plain in saved.get("flights", {}).items():
            if int(client) in waiting:
                flights.flying[int(client)] = flights._flight_from(int(client), plain)
        return flights

    def to_json(self) -> dict[str, Any]:
        return {
            "arrivals": self.arrivals,
            "seconds": {str(client): seconds for client, seconds in self.seconds.items()},
            "sync_bytes": {str(client): nbytes for client, nbytes in self.sync_bytes.items()},
            "missed": {str(client): count for client, count in self.missed.items()},
            "flights": {str(client): flight.to_json() for client, flight in self.flying.items()},
        }

    def lag(self) -> int:
        """Return how many versions the client furthest behind began to train ago."""
        return max((self.state.model.version - flight.sync.version for flight in self.flying.values()), default=0)

    def fill(self, step: Attempt, present: Sequence[int], places: int) -> None:
        """Post to clients that are free, as many as there are places; `step.gone` wait for the model to move."""
        free = [client for client in present if client not in self.flying and client not in step.gone]
        count = min(places - len(self.flying), len(free))
        if count <= 0:
            return
        if count < len(free):
            path = (step.round, len(step.gone), len(self.flying))
            drawn = generator(self.schedule.seed, "cohort", *path).choice(free, count, replace=False)
            free = sorted(int(client) for client in drawn)
        choices = self.method.controller.choose(self.state.control, free, self.method.uplink)
        rate = self.schedule.rate(1 + self.arrivals // places)  # decays with the work done, not with the steps
        syncs = [self.state.broadcaster.sync(client, step.round, self.state.model) for client in free]
        for sync in sorted(syncs, key=lambda sync: (sync.full, sync.client)):
            self._post(sync, replace(step.task(sync.client, choices), learning_rate=rate))

    def receive(self, step: Attempt) -> tuple[Flight, Update] | None:
        """Wait for the next arrival; return an update that may be decoded, and note everything else."""
        arrival = self.backend.receive(min(self._until(flight) for flight in self.flying.values()))
        if arrival is None:
            self._abandon(step)
            return None
        flight = self.flying.pop(arrival.client, None)
        step.gone.add(arrival.client)
        if flight is None:
            if arrival.incident is None:
                step.validator.refuse(arrival.client, "an answer that was not asked for")
            else:
                step.validator.note(arrival.client, arrival.incident.kind, arrival.incident.reason)
            return None
        update = self._checked(flight, arrival)
        step.validator.incidents += [replace(one, round=step.round) for one in flight.validator.incidents]
        return None if update is None else (flight, update)

    def settle(self, step: Attempt, arrived: dict[int, Flight]) -> tuple[Settlement, tuple[Receipt, ...]]:
        """Account for a step: the receipts of what counted, and those that a controller may learn from.

        A client may have been busy for longer than the step: its seconds are measured by its own trip.
        """
        settlement = self.backend.settle()
        booked: list[Receipt] = []
        learnt: list[Receipt] = []
        for receipt in settlement.receipts:
            if (flight := arrived.get(receipt.client)) is None:
                continue
            trip_seconds = self.backend.now - flight.posted
            asked = replace(receipt, epochs=flight.task.epochs)
            alone = replace(settlement, receipts=(asked,), round_seconds=trip_seconds)
            counted, trusted = step.validator.settle(alone, step.intake.accepted)
            booked += counted
            learnt += trusted
            for one in trusted:
                took = max(one.busy_seconds, _finite(one.arrival_seconds))
                self.seconds[one.client] = max(took, FORGETTING * self.seconds.get(one.client, 0.0))
                self.sync_bytes[one.client] = flight.sync_bytes
                self.missed.pop(one.client, None)
        self.arrivals += len(booked)
        return replace(settlement, receipts=tuple(booked)), tuple(learnt)

    def _post(self, sync: Sync, task: Task) -> None:
        now = self.backend.now
        validator = Validator(sync.round, self.backend.layout)
        validator.posted(sync, task)
        flight = Flight(sync, task, sync.nbytes, now, now + self._patience(sync.client, sync.nbytes), validator)
        self.flying[sync.client] = flight
        self.backend.post(sync.client, sync, task, flight.until)

    def _until(self, flight: Flight) -> float:
        """Return a flight's deadline; that of a client posted when no trip was known follows once one is."""
        if isfinite(flight.until):
            return flight.until
        return flight.posted + self._patience(flight.sync.client, flight.sync_bytes)

    def _patience(self, client: int, sync_bytes: int) -> float:
        if self.schedule.deadline_seconds is not None:
            return self.schedule.deadline_seconds
        usual_bytes = max(self.sync_bytes.values(), default=0)
        if not self.seconds or sync_bytes > usual_bytes == 0:
            return self.schedule.first_deadline_seconds
        longer = max(sync_bytes / usual_bytes, 1.0) if usual_bytes else 1.0
        return self.schedule.deadline_factor * longer * self._expected(client)

    def _expected(self, client: int) -> float:
        """Return the seconds of a trip that a client is given before the deadline's factor."""
        most, missed = median(self.seconds.values()), self.missed.get(client, 0)
        if client not in self.seconds and not missed:
            return max(OUTLIER * most, *self.seconds.values())
        own = self.seconds.get(client) or max(self.seconds.values())
        return float(min(2.0**missed, OUTLIER) * max(own, most))

    def _checked(self, flight: Flight, arrival: Arrival) -> Update | None:
        """Return the update as it may be decoded; None if there is none, and the flight's validator notes why."""
        client, validator = arrival.client, flight.validator
        if arrival.report is not None:
            if validator.report(client, arrival.report) is None:
                return None
            self.state.broadcaster.acknowledge(client, flight.sync.version)
        if arrival.incident is not None:
            validator.note(client, arrival.incident.kind, arrival.incident.reason)
            return None
        if arrival.update is None:
            validator.refuse(client, "an answer without an update")
            return None
        return validator.update(client, arrival.update)

    def _abandon(self, step: Attempt) -> None:
        """Give up the clients whose time is over; all of them if nobody is left to answer."""
        now = self.backend.now
        over = [client for client, flight in self.flying.items() if self._until(flight) <= now] or list(self.flying)
        for client in sorted(over):
            del self.flying[client]
            self.missed[client] = self.missed.get(client, 0) + 1
            step.gone.add(client)
            incident = self.backend.abandon(client, step.round)
            step.validator.note(client, incident.kind, incident.reason)

    def _flight_from(self, client: int, plain: dict[str, Any]) -> Flight:
        sync = Sync(client, plain["round"], plain["version"], plain["version"], (), b"", self.schedule.seed)
        task, validator = task_from_plain(plain["task"]), Validator(plain["round"], self.backend.layout)
        validator.posted(sync, task)
        until = inf if plain["until"] is None else plain["until"]
        return Flight(sync, task, plain["sync_bytes"], plain["posted"], until, validator)


def _finite(seconds: float) -> float:
    return seconds if isfinite(seconds) else 0.0
