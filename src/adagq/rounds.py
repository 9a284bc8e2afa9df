"""THE loop: one round after the other, as in the paper's Algorithm 1. Every method and every backend runs it.

`federate` yields a `Closed` per round and does not end by itself; whoever asked for it decides when the model
is good enough. Nothing here draws a random number or reads a clock: seeds have names, seconds come from the
backend. All that outlives a round is in `State`, so a run can be left at any round boundary and taken up
again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan, sqrt
from typing import Any, Protocol

from adagq.control import Probe
from adagq.feedback import squared_norm
from adagq.messages import Broadcast, Choice, Closing, Facts, Receipt, Report, Sync, Task, Update
from adagq.methods import Method
from adagq.rows import ledger_of, row_of
from adagq.seeds import generator
from adagq.server import Aggregate, Downlink
from adagq.vectors import FloatVector, Layout

NO_BROADCAST = Broadcast()


class Backend(Protocol):
    """Runs clients, near or far. It may return fewer reports than syncs and fewer updates than tasks."""

    @property
    def layout(self) -> Layout: ...

    def initial(self) -> tuple[FloatVector, FloatVector]:
        """Return the first model, which clients that are there from the start make from the run's seed."""
        ...

    def sync(self, syncs: Sequence[Sync]) -> Sequence[Report]: ...

    def work(self, tasks: Sequence[Task]) -> Iterator[Update]:
        """Yield updates as they may be added, in an order that does not depend on the machine."""
        ...

    def close(self) -> Closing:
        """End the round once the updates are added up."""
        ...

    def evaluate(self, vector: FloatVector, buffers: FloatVector) -> tuple[float, float]:
        """Return (accuracy, loss) on the common test set."""
        ...


@dataclass(frozen=True)
class Schedule:
    """Who takes part when, and how fast the clients learn."""

    seed: int
    clients: int
    participants: int = 0  # sampled per round; 0 = all
    learning_rate: float = 0.01
    decay: float = 0.995  # of the learning rate, per round
    joins: Mapping[int, int] = field(default_factory=dict)  # client -> first round it is there; 1 if not named

    def cohort(self, round: int) -> tuple[int, ...]:
        """Return the clients of this round, in order."""
        present = [client for client in range(self.clients) if self.joins.get(client, 1) <= round]
        if not 0 < self.participants < len(present):
            return tuple(present)
        drawn = generator(self.seed, "cohort", round).choice(present, self.participants, replace=False)
        return tuple(sorted(int(client) for client in drawn))

    def founders(self) -> tuple[int, ...]:
        """Return the clients that are there from the start."""
        return tuple(client for client in range(self.clients) if self.joins.get(client, 1) <= 1)

    def rate(self, round: int) -> float:
        return float(self.learning_rate * self.decay ** (round - 1))


@dataclass
class State:
    """All that outlives a round. `control` is the controller's own frozen state."""

    downlink: Downlink
    control: Any
    round: int = 0
    seconds: float = 0.0
    receipts: tuple[Receipt, ...] = ()
    norm: float = nan
    server_seconds: float = 0.0
    broadcast: Broadcast = NO_BROADCAST  # the latest
    downloaded: Broadcast = NO_BROADCAST  # the one that the receipts are about


@dataclass(frozen=True, slots=True)
class Closed:
    """A finished round: its row, its ledger, and the state, which the next round will change."""

    row: dict[str, Any]
    ledger: list[dict[str, Any]]
    state: State


def begin(method: Method, backend: Backend, schedule: Schedule) -> State:
    """Return the state before the first round: clients that are there make the first model from the seed."""
    vector, buffers = backend.initial()
    downlink = Downlink(backend.layout, method.downlink, schedule.seed, vector, buffers)
    for client in schedule.founders():
        downlink.acknowledge(client)
    return State(downlink, method.controller.init(schedule.clients))


def federate(method: Method, backend: Backend, schedule: Schedule, state: State | None = None) -> Iterator[Closed]:
    """Run rounds, from the start or from `state`, until one brings no update at all (training diverged)."""
    state = state or begin(method, backend, schedule)
    controller, downlink = method.controller, state.downlink
    while True:
        k = state.round + 1
        cohort = schedule.cohort(k)

        # 1. The aggregate of the last round goes to every client, with what the controller wants probed.
        probes = controller.probe(state.control, cohort)
        syncs = [_asking(downlink.sync(client, k), method, probes.get(client)) for client in cohort]

        # 2. Clients apply it to their own copy and report losses.
        reports = tuple(backend.sync(syncs))
        for report in reports:
            downlink.acknowledge(report.client)

        # 3. While the clients train (a) the server decides how much each may send (b).
        facts = Facts(k, reports, state.receipts, state.norm, state.server_seconds, state.downloaded)
        state.control = controller.observe(state.control, facts)
        choices = controller.choose(state.control, tuple(report.client for report in reports))

        # 4. Each client learns its own levels or byte budget.
        tasks = [_task(report.client, k, method, schedule, choices[report.client]) for report in reports]

        # 5., 6. Payloads are added up as they arrive and forgotten; the model moves by their mean.
        aggregate = Aggregate(backend.layout)
        for update in backend.work(tasks):
            aggregate.add(update)
        closing = backend.close()
        if not closing.receipts:
            return
        mean, buffers = aggregate.mean()
        state.norm = sqrt(squared_norm(mean))
        state.downloaded = state.broadcast
        state.broadcast = downlink.step(mean, buffers, k, controller.broadcast(state.control).budget_bytes)

        state.round, state.receipts, state.server_seconds = k, closing.receipts, closing.server_seconds
        state.seconds += closing.round_seconds
        row = row_of(closing, state.norm, *backend.evaluate(downlink.vector, downlink.buffers))
        run = {"method": method.name, "seed": schedule.seed, "round": k}
        ledger = [run | line for line in ledger_of(closing.receipts)]
        yield Closed(run | {"seconds": state.seconds} | row, ledger, state)


def _asking(sync: Sync, method: Method, probe: Probe | None) -> Sync:
    if probe is None or (probe.levels is None and probe.noise <= 0):
        return sync
    levels = None if probe.levels is None else (probe.levels[0], probe.levels[1])
    return replace(sync, probe_codec=method.uplink, probe_levels=levels, probe_noise=probe.noise)


def _task(client: int, round: int, method: Method, schedule: Schedule, choice: Choice) -> Task:
    codec: Any = method.uplink
    if choice.levels and hasattr(codec, "levels"):
        codec = replace(codec, levels=choice.levels)
    return Task(
        client=client,
        round=round,
        codec=codec,
        epochs=choice.epochs or method.epochs,
        learning_rate=schedule.rate(round),
        seed=schedule.seed,
        budget_bytes=choice.budget_bytes,
        residual=method.residual,
        rate_curve=method.rate_curve,
    )
