"""THE loop: one round after the other, as in the paper's Algorithm 1. Every method and every backend runs it.

`federate` yields a `Closed` per round and does not end by itself; whoever asked for it decides when the model
is good enough. Nothing here draws a random number or reads a clock: seeds have names, seconds come from the
backend. All that outlives a round is in `State`, so a run can be left at any round boundary and taken up
again.

Clients may fail at any step. A round closes at its deadline (`deadlines`) with what arrived and passed
(`screening`); their mean is over them alone. With fewer than `min_updates` the model stays, the controller forgets
the attempt, and the round is tried again; its seconds count.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, nan, sqrt
from statistics import median
from typing import Any

from adagq.control import Probe
from adagq.deadlines import Pace, expected_seconds
from adagq.errors import AdagqError, PayloadError
from adagq.federation import Backend, Closed, Schedule, State
from adagq.feedback import squared_norm
from adagq.messages import Choice, Closing, Facts, Incident, Receipt, Report, Sync, Task, Update
from adagq.methods import Method
from adagq.rows import incidents_of, ledger_of, row_of
from adagq.screening import Receipts, Screen
from adagq.server import Aggregate, Downlink, checked_norm, usable
from adagq.vectors import FloatVector, Layout

MAX_ATTEMPTS = 20  # at one round, before the run is given up
RECENT_NORMS = 100
logger = logging.getLogger("adagq")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What came of one attempt at a round."""

    mean: tuple[FloatVector, FloatVector] | None  # None if too little arrived, or nothing that could be used
    closing: Closing  # with the receipts of accepted updates and with all incidents
    learnt: tuple[Receipt, ...]  # receipts that may be learnt from
    control: Any  # the controller's state after this attempt, if it counts
    pace: Pace
    reports: tuple[Report, ...]


def begin(method: Method, backend: Backend, schedule: Schedule) -> State:
    """Return the state before the first round: clients that are there make the first model from the seed."""
    vector, buffers = backend.initial()
    downlink = Downlink(backend.layout, method.downlink, schedule.seed, vector, buffers)
    for client in schedule.founders():
        downlink.acknowledge(client)
    return State(downlink, method.controller.init(schedule.clients))


def federate(method: Method, backend: Backend, schedule: Schedule, state: State | None = None) -> Iterator[Closed]:
    """Run rounds, from the start or from `state`, until every client's training has diverged."""
    state = state or begin(method, backend, schedule)
    controller, downlink = method.controller, state.downlink
    attempted = _one_exchange if schedule.exchanges == 1 else _two_exchanges
    logged: set[int] = set()
    while True:
        k = state.round + 1
        state.attempt = 0
        incidents: list[Incident] = []
        while True:
            attempt = attempted(method, backend, schedule, state)
            closing = attempt.closing
            state.seconds += closing.round_seconds
            incidents.extend(closing.incidents)
            _log(closing.incidents, logged)
            if attempt.mean is not None:
                break
            if not closing.receipts and _refused_by_most(closing.incidents):
                return  # most answered and nothing is a number any more: another attempt would be the same
            state.attempt += 1
            if state.attempt == MAX_ATTEMPTS:
                raise AdagqError(_vain(k, closing, schedule.min_updates))

        mean, buffers = attempt.mean
        state.norm = sqrt(squared_norm(mean))
        state.round, state.receipts, state.server_seconds = k, attempt.learnt, closing.server_seconds
        state.control, state.pace, state.downloaded = attempt.control, attempt.pace, state.broadcast
        if schedule.exchanges == 1:
            state.control = controller.observe(state.control, _facts(state, k, attempt.reports))
        state.broadcast = downlink.step(mean, buffers, k, controller.broadcast(state.control).budget_bytes)

        row = row_of(closing, state.norm, *backend.evaluate(downlink.vector, downlink.buffers), incidents)
        run = {"method": method.name, "seed": schedule.seed, "round": k}
        yield Closed(
            run | {"seconds": state.seconds} | row | {"attempts": state.attempt + 1},
            [run | line for line in ledger_of(closing.receipts)],
            [run | line for line in incidents_of(incidents)],
            state,
        )


def _two_exchanges(method: Method, backend: Backend, schedule: Schedule, state: State) -> _Attempt:
    """The paper's round: levels are decided on this round's reports, while the clients train."""
    k, controller, patience = state.round + 1, method.controller, schedule.patience

    # 1. The aggregate of the last round goes to every client, with what the controller wants probed.
    syncs = _syncs(method, schedule, state)
    screen = Screen(k, syncs, schedule.weight_bound)

    # 2. Clients apply it to their own copy and report losses.
    reports_by = patience.deadlines(state.pace, syncs).reports
    screened = (screen.report(report) for report in backend.sync(syncs, reports_by))
    reports = tuple(sorted(filter(None, screened), key=lambda report: report.client))
    for report in reports:
        state.downlink.acknowledge(report.client)

    # 3. While the clients train (a) the server decides how much each may send (b).
    control = controller.observe(state.control, _facts(state, k, reports))
    choices = controller.choose(control, tuple(report.client for report in reports)) if reports else {}

    # 4. Each client learns its own levels or byte budget.
    tasks = [_task(report.client, k, method, schedule, choices[report.client]) for report in reports]
    expected, missing = expected_seconds(state.pace, tasks, state.receipts), len(reports) < len(syncs)
    deadline = patience.deadlines(state.pace, syncs, expected, missing).updates

    # 5., 6. Payloads are added up as they arrive and forgotten; the model moves by their mean.
    screen.expect(tasks, [report.examples for report in reports])
    aggregate = _added(backend.work(tasks, deadline), screen, schedule, state, backend.layout)
    closing = backend.close()
    receipts = screen.close(closing, reports_by if missing else closing.report_seconds)
    return _closed(aggregate, closing, receipts, screen, schedule, state, (syncs, tasks, reports), control)


def _one_exchange(method: Method, backend: Backend, schedule: Schedule, state: State) -> _Attempt:
    """The same in one trip: levels are those of the state before this round's reports, which come with the updates."""
    k, cohort = state.round + 1, schedule.cohort(state.round + 1)
    syncs = _syncs(method, schedule, state)
    choices = method.controller.choose(state.control, cohort)
    tasks = [_task(client, k, method, schedule, choices[client]) for client in cohort]
    screen = Screen(k, syncs, schedule.weight_bound)
    screen.expect(tasks, [receipt.examples for receipt in state.receipts])
    expected = expected_seconds(state.pace, tasks, state.receipts)
    deadline = schedule.patience.deadlines(state.pace, syncs, expected).updates
    reports: list[Report] = []

    def updates() -> Iterator[Update]:
        for told, update in backend.exchange(syncs, tasks, deadline):
            if (report := screen.report(told)) is not None:
                state.downlink.acknowledge(report.client)
                reports.append(report)
                yield update

    aggregate = _added(updates(), screen, schedule, state, backend.layout)
    reports.sort(key=lambda report: report.client)
    closing, exchanged = backend.close(), (syncs, tasks, tuple(reports))
    receipts = screen.close(closing, idle_seconds=0.0)
    return _closed(aggregate, closing, receipts, screen, schedule, state, exchanged, state.control)


def _syncs(method: Method, schedule: Schedule, state: State) -> list[Sync]:
    k = state.round + 1
    cohort = schedule.cohort(k)
    probes = method.controller.probe(state.control, cohort)
    return [_asking(state.downlink.sync(client, k), method, probes.get(client)) for client in cohort]


def _facts(state: State, round: int, reports: tuple[Report, ...]) -> Facts:
    return Facts(round, reports, state.receipts, state.norm, state.server_seconds, state.downloaded)


def _added(updates: Iterable[Update], screen: Screen, schedule: Schedule, state: State, layout: Layout) -> Aggregate:
    """Return the sum of what passes; norms are looked at if there is a bound, or reason to be wary."""
    aggregate = Aggregate(layout)
    largest = schedule.norm_bound * median(state.norms) if schedule.norm_bound and state.norms else inf
    for update in updates:
        if (passed := screen.update(update)) is None:
            continue
        try:
            norm = checked_norm(passed, layout, largest) if schedule.norm_bound or state.wary else nan
            aggregate.add(passed)
        except PayloadError as error:
            screen.refuse(passed.client, str(error))
        else:
            screen.accept(passed, norm)
    return aggregate


def _closed(
    aggregate: Aggregate,
    closing: Closing,
    receipts: tuple[Receipts, Receipts],
    screen: Screen,
    schedule: Schedule,
    state: State,
    exchanged: tuple[Sequence[Sync], Sequence[Task], tuple[Report, ...]],
    control: Any,
) -> _Attempt:
    syncs, tasks, reports = exchanged
    booked, learnt = receipts
    mean = None
    if len(booked) >= max(schedule.min_updates, 1) and _in_bounds(screen, schedule, state):
        mean = aggregate.mean()
        if not all(map(usable, mean)):
            mean, state.wary = None, True
    closing = replace(closing, receipts=booked, incidents=tuple(screen.incidents))
    pace = state.pace.after(syncs, tasks, learnt, closing.report_seconds)
    return _Attempt(mean, closing, learnt, control, pace, reports)


def _in_bounds(screen: Screen, schedule: Schedule, state: State) -> bool:
    """Remember the norms. The first ones have only each other to be measured by: if one is out of bounds, try again."""
    if not schedule.norm_bound or not screen.norms:
        return True
    first, largest = not state.norms, schedule.norm_bound * median(state.norms or screen.norms)
    usual = tuple(norm for norm in screen.norms if norm <= largest)
    state.norms = (*state.norms, *usual)[-RECENT_NORMS:]
    return not first or len(usual) == len(screen.norms)


def _refused_by_most(incidents: Iterable[Incident]) -> bool:
    refused = {incident.client for incident in incidents if incident.kind == "refused"}
    failed = {incident.client for incident in incidents if incident.kind in ("lost", "late")}
    return len(refused) > len(failed)


def _log(incidents: Iterable[Incident], logged: set[int]) -> None:
    """Say once per client that something is wrong with it; incidents.jsonl has all of it."""
    for incident in incidents:
        if incident.client not in logged:
            logged.add(incident.client)
            level = logging.INFO if incident.kind in ("lost", "late") else logging.WARNING
            text = "client %d in round %d: %s (%s); further incidents of this client are not logged"
            logger.log(level, text, incident.client, incident.round, incident.kind, incident.reason)


def _vain(round: int, closing: Closing, min_updates: int) -> str:
    kinds = Counter(incident.kind for incident in closing.incidents)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nobody answered"
    reason = f"; the last reason: {closing.incidents[-1].reason}" if closing.incidents else ""
    return (
        f"round {round}: {MAX_ATTEMPTS} attempts in a row brought fewer than {min_updates} usable updates "
        f"(the last one {len(closing.receipts)}; {counts}{reason})"
    )


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
