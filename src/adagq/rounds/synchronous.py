"""Rounds with a barrier, as in the paper's Algorithm 1: everyone is asked, everyone is waited for, the model moves.

`synchronous` yields a result per round and does not end by itself; whoever asked for it decides when the model is good
enough. Nothing here draws a random number or reads a clock: seeds have names, seconds come from the backend. All that
outlives a round is in `State`, so a run can be left at any round boundary and taken up again.

Clients may fail at any step. A round closes at its deadline (`deadlines`) with what arrived and passed (`validation`);
their mean is over them alone. With fewer than `min_updates` the model stays, the controller forgets the attempt, and
the round is tried again; its seconds count.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import sqrt
from typing import Any

from adagq.core.errors import AdagqError, DivergedError
from adagq.core.messages import Incident, IncidentKind
from adagq.core.vectors import squared_norm
from adagq.methods.table import Method
from adagq.rounds.attempt import Attempt, Outcome
from adagq.rounds.backend import Backend
from adagq.rounds.loops import LOOPS
from adagq.rounds.rows import incidents_of, ledger_of, row_of
from adagq.rounds.schedule import Schedule
from adagq.rounds.state import RoundResult, State, begin
from adagq.server.deadlines import expected_seconds

MAX_ATTEMPTS = 20  # at one round, before the run is given up
MAX_LOGGED = 50  # clients whose incidents are logged: in a crowd there are some in every round
FAILED_ATTEMPTS = 2  # … where the clients' own code fails
logger = logging.getLogger("adagq")
Attempted = tuple[Any, Outcome, Attempt]  # the controller's state with it


@LOOPS.register("synchronous")
def synchronous(
    method: Method, backend: Backend, schedule: Schedule, state: State | None = None
) -> Iterator[RoundResult]:
    """Run rounds, from the start or from `state`; DivergedError when every client's training has diverged."""
    state = state or begin(method, backend, schedule)
    exchange = one_exchange if schedule.exchanges == 1 else two_exchanges

    def attempt_round(number: int) -> Attempted:
        present = backend.clients(state.round + 1, schedule.min_clients)
        present = state.exclusions.admitted(present, state.round + 1, max(schedule.min_clients, schedule.min_updates))
        cohort = schedule.cohort(state.round + 1, present, number)
        return exchange(Attempt(method, backend, schedule, state, cohort))

    yield from closed_rounds(method, backend, schedule, state, attempt_round)


def closed_rounds(
    method: Method, backend: Backend, schedule: Schedule, state: State, attempt_round: Callable[[int], Attempted]
) -> Iterator[RoundResult]:
    """Yield a result per round; one without enough updates is attempted again, with the number of the attempt."""
    logged: set[int] = set()
    while True:
        incidents: list[Incident] = []
        for number in range(MAX_ATTEMPTS):
            control, outcome, attempt = attempt_round(number)
            state.seconds += outcome.settlement.round_seconds
            incidents.extend(outcome.incidents)
            log_incidents(outcome.incidents, logged)
            if outcome.mean is not None:
                break
            if not outcome.settlement.receipts and most_are("diverged", outcome):
                raise DivergedError(f"diverged in round {attempt.round}: learning rate too high? ({_last(incidents)})")
            if number + 1 >= FAILED_ATTEMPTS and most_are("failed", outcome):
                raise AdagqError(f"round {attempt.round}: the clients' own code fails: {_last(incidents)}")
        else:
            raise AdagqError(_in_vain(attempt.round, outcome, schedule.min_updates))
        _move(state, attempt, outcome, control)
        incidents.extend(exclude(state, schedule, attempt, incidents))
        yield _result(method, schedule, state, attempt, outcome, incidents, number + 1)


def two_exchanges(attempt: Attempt) -> Attempted:
    """The paper's round: payloads are decided on this round's reports, while the clients train.

    In a round that asks nobody for losses there is nothing to wait for: sync and task travel together.
    """
    state, controller, deadlines = attempt.state, attempt.method.controller, attempt.schedule.deadlines

    # 1. The step of the last round goes to every client, with what the controller wants probed.
    probing = [sync.client for sync in attempt.syncs if sync.probing]
    reports_by = deadlines.deadlines(state.pace, attempt.syncs).reports
    if probing:
        for sync in attempt.in_posting_order():
            attempt.post(sync, None, reports_by)

    # 2. Clients apply it to their replicas and report losses.
    attempt.receive_reports(probing, reports_by)

    # 3. While the clients train (a) the server decides how much each may send (b).
    reports = sorted(attempt.validator.reports.values(), key=lambda report: report.client)
    control = controller.observe(state.control, attempt.facts(reports))
    present = [sync for sync in attempt.in_posting_order() if sync.client not in attempt.gone]
    choices = controller.choose(control, sorted(sync.client for sync in present), attempt.method.uplink)

    # 4. Each client learns its own codec or byte budget.
    tasks = {sync.client: attempt.task(sync.client, choices) for sync in present}
    missing = len(attempt.report_seconds.keys() & set(probing)) < len(probing)
    expected = expected_seconds(state.pace, attempt.tasks, state.receipts)
    updates_by = deadlines.deadlines(state.pace, attempt.syncs, expected, missing).updates
    for sync in present:
        attempt.post(None if probing else sync, tasks[sync.client], updates_by)

    # 5., 6. Payloads are added up as they arrive and forgotten; the model moves by their mean.
    attempt.receive_updates([task.client for task in attempt.tasks], updates_by)
    return control, attempt.close(attempt.decided_seconds), attempt


def one_exchange(attempt: Attempt) -> Attempted:
    """The same in one trip: payloads are decided before this round's reports, which come with the updates."""
    state, controller = attempt.state, attempt.method.controller
    choices = controller.choose(state.control, attempt.clients, attempt.method.uplink)
    tasks = {client: attempt.task(client, choices) for client in attempt.clients}
    expected = expected_seconds(state.pace, attempt.tasks, state.receipts)
    updates_by = attempt.schedule.deadlines.deadlines(state.pace, attempt.syncs, expected).updates
    for sync in attempt.in_posting_order():
        attempt.post(sync, tasks[sync.client], updates_by)
    attempt.receive_updates(attempt.clients, updates_by)
    return state.control, attempt.close(idle_seconds=0.0), attempt


def _move(state: State, attempt: Attempt, outcome: Outcome, control: Any) -> None:
    """Take the step of a round that has closed: the model, the controller, the pace."""
    assert outcome.mean is not None, "an attempt without a mean is repeated"
    controller = attempt.method.controller
    mean, buffers = outcome.mean
    state.norm = sqrt(squared_norm(mean))
    state.round, state.receipts, state.server_seconds = attempt.round, outcome.learnt, outcome.settlement.server_seconds
    state.control, state.downloaded = control, state.broadcaster.latest
    privacy, counted = attempt.schedule.privacy, attempt.intake.accepted
    state.noise_energy = privacy.noise_energy(mean.size, len(counted))
    if privacy.central:
        state.spent = state.spent.after(counted)
    state.pace = state.pace.after(
        attempt.syncs, attempt.tasks, outcome.learnt, attempt.report_seconds, attempt.decided_seconds
    )
    # With two exchanges the next round's reports are observed with these receipts; the broadcast cannot wait for them.
    learnt = controller.observe(state.control, attempt.facts(outcome.reports))
    if attempt.schedule.exchanges == 1:
        state.control = learnt
    step = state.model.step(mean, outcome.settlement.receipts)
    layout = state.model.layout
    sent = state.broadcaster.encode(step, attempt.round, layout, controller.broadcast(learnt, layout.elements))
    state.model.move(sent, buffers)


def exclude(state: State, schedule: Schedule, attempt: Attempt, incidents: Sequence[Incident]) -> list[Incident]:
    """Note who offended in a closed round and return an incident for each client whose pause begins."""
    if not schedule.exclude_after:
        return []
    asked = attempt.clients or [task.client for task in attempt.tasks]  # without a barrier: whose updates are in
    state.exclusions = state.exclusions.after(state.round, incidents, asked, schedule.exclude_after)
    reason = f"left out for %d rounds: {schedule.exclude_after} rounds with refused or cut messages"
    return [
        Incident(client, state.round, "excluded", reason % pause)
        for client, pause in state.exclusions.excluded_in(state.round)
    ]


def _result(
    method: Method,
    schedule: Schedule,
    state: State,
    attempt: Attempt,
    outcome: Outcome,
    incidents: list[Incident],
    attempts: int,
) -> RoundResult:
    model = state.model
    scores = attempt.backend.evaluate(model.vector, model.buffers)
    row = row_of(outcome.settlement, state.norm, *scores, model.version - 1, incidents)
    if schedule.privacy.on:
        row |= state.spent.columns(schedule.privacy)
    run = {"method": method.name, "seed": schedule.seed, "round": state.round}
    return RoundResult(
        run | {"seconds": state.seconds} | row | {"attempts": attempts},
        [run | line for line in ledger_of(outcome.settlement.receipts, model.version - 1)],
        [run | line for line in incidents_of(incidents)],
        state,
        attempt.decisions,
    )


def most_are(kind: IncidentKind, outcome: Outcome) -> bool:
    """Whether most clients with an incident have one of this kind: another attempt would be the same."""
    kinds = Counter({incident.client: incident.kind for incident in outcome.incidents}.values())
    return 2 * kinds[kind] > sum(kinds.values())


def log_incidents(incidents: Iterable[Incident], logged: set[int]) -> None:
    """Say once per client that something is wrong with it; incidents.jsonl has all of it."""
    for incident in incidents:
        if incident.client not in logged:
            logged.add(incident.client)
            if len(logged) > MAX_LOGGED:
                continue
            level = logging.INFO if incident.kind in ("lost", "late") else logging.WARNING
            text = "client %d in round %d: %s (%s); further incidents of this client are not logged"
            logger.log(level, text, incident.client, incident.round, incident.kind, incident.reason)
            if len(logged) == MAX_LOGGED:
                logger.warning("incidents of %d clients were logged; those of others are not", MAX_LOGGED)


def _last(incidents: list[Incident]) -> str:
    return incidents[-1].reason if incidents else "nobody answered"


def _in_vain(round: int, outcome: Outcome, min_updates: int) -> str:
    kinds = Counter(incident.kind for incident in outcome.incidents)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nobody answered"
    reason = f"; the last reason: {outcome.incidents[-1].reason}" if outcome.incidents else ""
    return (
        f"round {round}: {MAX_ATTEMPTS} attempts in a row brought fewer than {min_updates} usable updates "
        f"(the last one {len(outcome.settlement.receipts)}; {counts}{reason})"
    )
