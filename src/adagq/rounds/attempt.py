"""One attempt at a round: who was asked for what, what came of it, and what that makes of the state.

Loops decide whom to post to and how long to wait; everything that they do with what arrives is here.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from adagq.control.controller import Pair
from adagq.core.codec import in_round
from adagq.core.errors import ConfigError
from adagq.core.messages import Arrival, Choice, Facts, Incident, Receipt, Report, Settlement, Sync, Task
from adagq.core.seeds import derive
from adagq.core.vectors import FloatVector
from adagq.methods.table import Method
from adagq.rounds.backend import Backend
from adagq.rounds.schedule import Schedule
from adagq.rounds.state import State
from adagq.server.edges import EdgeSum
from adagq.server.intake import Intake
from adagq.server.validation import Validator


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt. Without a mean (too little arrived, or nothing usable) the round is tried again."""

    mean: tuple[FloatVector, FloatVector] | None
    settlement: Settlement  # with the receipts of accepted updates
    learnt: tuple[Receipt, ...]  # receipts that a controller may learn from
    incidents: tuple[Incident, ...]
    reports: tuple[Report, ...]


@dataclass
class Attempt:
    """Posts, receives and adds up. `gone` are the clients of whom nothing more will come."""

    method: Method
    backend: Backend
    schedule: Schedule
    state: State
    clients: tuple[int, ...]  # of this round
    syncs: list[Sync] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    report_seconds: dict[int, float] = field(default_factory=dict)  # of reports that came on their own
    decided_seconds: float = 0.0  # since the attempt began: how long the decision was waited for

    def __post_init__(self) -> None:
        layout = self.backend.layout
        self.round = self.state.round + 1
        self.began = self.backend.now
        self.validator = Validator(self.round, layout)
        self.intake = Intake(
            layout,
            self.clients,
            self.state.usual,
            self.schedule.bounds,
            self.validator.refuse,
            self.validator.clamp,
            self.method.aggregate or self.schedule.aggregate,
            self.schedule.byzantine_share,
            self.schedule.privacy,
            self.schedule.noise_seed_of(self.round),
            self.state.broadcaster.reference,
            self.state.model.buffers,
            self._edge_sum(),
        )
        probes: Mapping[int, Pair] = {}
        if not self.schedule.privacy.on:  # losses are private
            probes = self.method.controller.probe(self.state.control, self.clients, self.method.uplink)
        broadcaster, model = self.state.broadcaster, self.state.model
        for client in self.clients:
            sync = broadcaster.sync(client, self.round, model)
            self.syncs.append(replace(sync, probe=probes[client]) if client in probes else sync)

    def _edge_sum(self) -> EdgeSum | None:
        """Return the sum of a fleet with edge servers, which only simulations have."""
        edges, levels = getattr(self.backend, "edges", (0, 0))
        if not edges:
            return None
        if self.schedule.privacy.on or (self.method.aggregate or self.schedule.aggregate) != "mean":
            raise ConfigError(f"fleet.edges = {edges}: edge servers can only make a plain mean, without privacy")
        return EdgeSum(self.backend.layout, edges, levels, derive(self.schedule.seed, "edges", self.round))

    def facts(self, reports: Sequence[Report]) -> Facts:
        state = self.state
        return Facts(
            self.round,
            tuple(reports),
            state.receipts,
            state.norm,
            state.server_seconds,
            state.downloaded,
            state.noise_energy,
        )

    def task(self, client: int, choices: Mapping[int, Choice]) -> Task:
        """Return a client's task, as the controller chose it, and note it."""
        choice, privacy = choices[client], self.schedule.privacy
        if privacy.local:  # whatever becomes of its answer, the server may have seen it
            self.state.spent = self.state.spent.after([client])
        task = Task(
            client=client,
            round=self.round,
            codec=in_round(self.method.sent_with(choice.codec), self.round),
            epochs=choice.epochs or self.method.epochs,
            learning_rate=self.schedule.rate(self.round),
            seed=self.schedule.seed,
            budget_bytes=choice.budget_bytes,
            budget_bits=choice.budget_bits,
            rate_curve=self.method.rate_curve,
            proximal=self.method.client_optimizer.proximal,
            inertia=self.method.client_optimizer.inertia,
            clip_norm=privacy.clip,
            noise_deviation=privacy.deviation if privacy.local else 0.0,
        )
        self.tasks.append(task)
        return task

    @property
    def decisions(self) -> tuple[tuple[int, str, int | None, float], ...]:
        """What clients were asked for: client, codec, byte budget, epochs."""
        tasks = sorted(self.tasks, key=lambda task: task.client)
        return tuple((task.client, str(task.codec), task.budget_bytes, task.epochs) for task in tasks)

    def in_posting_order(self) -> list[Sync]:
        """Return the syncs, whole models last: they tell nothing of the step that led to them."""
        return sorted(self.syncs, key=lambda sync: (sync.full, sync.client))

    def post(self, sync: Sync | None, task: Task | None, seconds: float) -> None:
        """Send a client its sync, its task, or both in one message, void so many seconds after the attempt began."""
        message = sync or task
        assert message is not None, "nothing to post"
        self.validator.posted(sync, task)
        self.backend.post(message.client, sync, task, self.began + seconds)

    def receive_reports(self, clients: Collection[int], seconds: float) -> None:
        """Wait until these clients have reported, at most for `seconds` since the attempt began."""
        self._receive(lambda: set(clients) - self.validator.reports.keys() - self.gone, seconds)
        self.decided_seconds = self.backend.now - self.began if clients else 0.0

    def receive_updates(self, clients: Collection[int], seconds: float) -> None:
        """Wait until these clients have sent their updates, at most for `seconds` since the attempt began."""
        self._receive(lambda: set(clients) - self.gone, seconds)

    def close(self, idle_seconds: float) -> Outcome:
        """Add up, account for the seconds; nobody waited for a decision longer than `idle_seconds`."""
        mean = self.intake.close()
        if self.intake.edges is not None:
            self.backend.edges_sent(self.intake.edges.sent)  # type: ignore[attr-defined]  # a simulated one
        settlement = self.backend.settle()
        booked, learnt = self.validator.settle(settlement, self.intake.accepted, idle_seconds)
        if mean is not None and len(booked) >= max(self.schedule.min_updates, 1):
            self.state.usual = self.intake.learnt()
        else:
            mean = None
        reports = sorted(self.validator.reports.values(), key=lambda report: report.client)
        settlement = replace(settlement, receipts=booked)
        return Outcome(mean, settlement, learnt, tuple(self.validator.incidents), tuple(reports))

    def _receive(self, awaited: Callable[[], set[int]], seconds: float) -> None:
        until = self.began + seconds
        while waiting := awaited():
            arrival = self.backend.receive(until)
            if arrival is None:
                self._abandon(waiting)
                return
            self._take(arrival)

    def _take(self, arrival: Arrival) -> None:
        client = arrival.client
        if arrival.report is not None:
            known = client in self.validator.reports
            if self.validator.report(client, arrival.report) is not None:
                if arrival.update is None:
                    self.report_seconds[client] = arrival.seconds - self.began
                self.state.broadcaster.acknowledge(client, self.state.model.version)
            elif not known:
                self._give_up(client)  # with its update, if that came in the same message
                return
        if arrival.incident is not None:
            self._lose(arrival.incident)
        elif arrival.update is not None and client not in self.gone:
            self.gone.add(client)
            if (update := self.validator.update(client, arrival.update)) is not None:
                self.intake.put(update)
            else:
                self.intake.missing(client)
        elif arrival.update is not None:
            self.validator.update(client, arrival.update)  # a second one: refused, and noted

    def _abandon(self, clients: Iterable[int]) -> None:
        for client in sorted(clients):
            self._lose(self.backend.abandon(client, self.round))

    def _lose(self, incident: Incident) -> None:
        self.validator.note(incident.client, incident.kind, incident.reason)
        self._give_up(incident.client)

    def _give_up(self, client: int) -> None:
        self.gone.add(client)
        self.intake.missing(client)
