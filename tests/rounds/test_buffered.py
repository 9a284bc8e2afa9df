"""Loops without a barrier over toy clients: who is waited for, what a stale update counts, and runs that are left."""

import copy
import json
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from adagq.codecs import decode
from adagq.core.errors import AdagqError, ConfigError, DivergedError
from adagq.core.vectors import Layout
from adagq.methods.table import Method, method_of
from adagq.rounds import LOOPS, Buffered, RoundResult, Schedule, State
from adagq.server.intake import Intake
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.fleet.failures import Reliability
from adagq.simulation.processes import open_pool
from toy import ToySpec

NAMES = ("fedbuff", "fedasync", "fedsa", "qafel")
SCHEDULE = Schedule(seed=5, learning_rate=0.2)
SPEC = ToySpec(clients=6, layout=Layout.of_sizes([32, 8]))  # no buffers: those of old models would be cut to size
SLOW = fleets.FleetConfig(client=(fleets.ClientConfig(count=5), fleets.ClientConfig(epoch_seconds=155.0)))


def one_epoch(name: str) -> Method:
    """A row, its local epochs apart: steps of much the same length for all."""
    return replace(method_of(name), epochs=1)


def backend(pool, method: Method, spec: ToySpec = SPEC, fleet: fleets.FleetConfig | None = None) -> Simulated:
    pool.prepare(spec, spec.layout)
    built = fleets.build(fleet or fleets.paper(clients=spec.clients), seed=5)
    return Simulated(pool, spec.build(), built, method, seed=5)


def steps(
    method: Method | str, count: int, schedule: Schedule = SCHEDULE, workers: int = 1, loop=None, **given
) -> list[RoundResult]:
    method = one_epoch(method) if isinstance(method, str) else method
    with open_pool(workers) as pool:
        closed = (loop or LOOPS[method.loop])(method, backend(pool, method, **given), schedule, None)
        return [copy.deepcopy(one) for one in islice(closed, count)]


@pytest.mark.parametrize("name", NAMES)
def test_learns_with_stale_updates(name: str) -> None:
    closed = steps(name, 60 if name == "fedasync" else 24, spec=ToySpec(clients=6))
    rows = [one.row for one in closed]
    assert [row["round"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[-1]["accuracy"] > 0.9
    assert max(row["staleness"] for row in rows) > 0
    assert rows[-1]["seconds"] == pytest.approx(sum(row["round_seconds"] for row in rows))
    for one in closed:
        lines = [line["staleness"] for line in one.ledger]
        assert one.row["staleness"] == pytest.approx(np.mean(lines))
        assert min(lines) >= 0
    json.dumps(rows, allow_nan=False)
    json.dumps([one.state.loop for one in closed], allow_nan=False)


@pytest.mark.parametrize(("name", "clients"), [("fedbuff", 3), ("fedasync", 1), ("fedsa", 3)])
def test_a_step_takes_its_number_of_arrivals(name: str, clients: int) -> None:
    closed = steps(name, 8)
    lag = [one.row["clients"] for one in closed]
    assert lag[:5] == [clients] * 5
    assert all(number >= clients for number in lag)


@pytest.mark.parametrize("name", NAMES)
def test_nobody_waits_for_a_client_ten_times_slower(name: str) -> None:
    """The steps before the slow client's first update take the time of the others; with a barrier it sets the pace."""
    with_barrier = steps(method_of("fedavg"), 1, loop=LOOPS["synchronous"], fleet=SLOW)
    closed = steps(replace(method_of(name), epochs=5), 5, fleet=SLOW)
    assert 5 not in {line["client"] for one in closed[:2] for line in one.ledger}
    assert closed[1].row["seconds"] < 0.5 * with_barrier[0].row["seconds"]


def test_the_slow_clients_update_counts_with_its_staleness() -> None:
    closed = steps("fedbuff", 30, fleet=SLOW)
    late = [line["staleness"] for one in closed for line in one.ledger if line["client"] == 5]
    assert late
    assert late[0] >= 4
    assert not any(one.incidents for one in closed)


def test_semi_asynchronous_rounds_wait_for_who_is_five_versions_behind() -> None:
    closed = steps("fedsa", 14, fleet=SLOW)
    late = [line["staleness"] for one in closed for line in one.ledger if line["client"] == 5]
    assert late
    assert set(late) == {5}


def test_the_step_is_the_mean_discounted_by_staleness() -> None:
    """By hand, from the clients' updates: sum n d u / sum n with d = (1 + staleness)^-1/2, or divided by its mean."""
    taken = []
    plain = Intake.put

    def noting(self, update) -> None:
        taken.append((update, self))
        plain(self, update)

    for loop, normalized in ((Buffered(3), False), (Buffered(3, normalized=True), True)):
        taken.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Intake, "put", noting)
            schedule = replace(SCHEDULE, norm_bound=0.0)
            vectors, ends = [], []
            with open_pool(1) as pool:
                method = one_epoch("fedbuff")
                running = backend(pool, method, fleet=SLOW)
                vectors.append(running.initial()[0])
                for one in islice(loop(method, running, schedule, None), 12):
                    vectors.append(one.state.model.vector)
                    ends.append(len(taken))
        stale = 0
        for step, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            updates = [update for update, _ in taken[first:last]]
            examples = np.array([update.examples for update in updates], np.float64)
            ages = np.array([step - update.version for update in updates])
            discounts = (1.0 + ages) ** -0.5
            stale += int(ages.sum())
            weights = examples * discounts / (examples @ discounts if normalized else examples.sum())
            mean = sum(weight * decode(update.payload) for weight, update in zip(weights, updates, strict=True))
            np.testing.assert_allclose(vectors[step] - vectors[step + 1], mean, atol=1e-6)
        assert stale > 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("failing", [False, True])
def test_the_same_rows_on_any_number_of_workers(name: str, failing: bool) -> None:
    client = fleets.ClientConfig(count=6, drop_rate=0.3, uplink_mbps=(0.5, 5.0)) if failing else None
    fleet = fleets.FleetConfig(client=(client,)) if client else SLOW
    one, two = (steps(name, 12, workers=workers, fleet=fleet) for workers in (1, 2))
    assert [closed.row for closed in one] == [closed.row for closed in two]
    assert [closed.ledger for closed in one] == [closed.ledger for closed in two]
    assert [closed.incidents for closed in one] == [closed.incidents for closed in two]
    assert any(closed.incidents for closed in one) == failing


def taken_up(state: State, method: Method) -> State:
    """The state as a checkpoint keeps it: what is plain goes through JSON."""
    state = copy.deepcopy(state)
    state.loop = json.loads(json.dumps(state.loop))
    state.control = method.controller.from_json(json.loads(json.dumps(state.control.to_json())))
    return state


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("failing", [False, True])
def test_a_run_can_be_left_while_clients_train(name: str, failing: bool) -> None:
    """A new backend, restored in the middle, goes on with those under way: bit for bit."""
    method = replace(one_epoch(name), residual=True)
    reliability = {"drop_rate": 0.3} if failing else {}
    fleet = fleets.FleetConfig(client=(fleets.ClientConfig(count=6, uplink_mbps=(0.5, 5.0), **reliability),))
    whole = steps(method, 12, fleet=fleet)
    with open_pool(1) as pool:
        running = backend(pool, method, fleet=fleet)
        left = 4  # in the step before the sixth `fedsa` waits for a client that is lost, and all others come to rest
        state = list(islice(LOOPS[method.loop](method, running, SCHEDULE, None), left))[-1].state
        saved = {key: array.copy() for key, array in running.checkpoint().items()}
        assert running.under_way()
        again = backend(pool, method, fleet=fleet)
        again.restore(saved)
        assert again.under_way() == running.under_way()
        rest = list(islice(LOOPS[method.loop](method, again, SCHEDULE, taken_up(state, method)), 12 - left))
    assert [one.row for one in rest] == [one.row for one in whole[left:]]
    assert [one.ledger for one in rest] == [one.ledger for one in whole[left:]]


def test_clients_that_the_backend_does_not_wait_for_are_posted_anew() -> None:
    method = one_epoch("fedbuff")
    with open_pool(1) as pool:
        running = backend(pool, method)
        state = list(islice(LOOPS["fedbuff"](method, running, SCHEDULE, None), 3))[-1].state
        saved = {key: array for key, array in running.checkpoint().items() if key != "under_way"}
        assert state.loop["flights"]
        other = backend(pool, method)
        other.restore(saved)
        rows = [one.row for one in islice(LOOPS["fedbuff"](method, other, SCHEDULE, taken_up(state, method)), 3)]
    assert [row["round"] for row in rows] == [4, 5, 6]


def test_so_many_train_at_a_time() -> None:
    schedule = replace(SCHEDULE, participants=2)
    method = one_epoch("fedbuff")
    with open_pool(1) as pool:
        running = backend(pool, method)
        for one in islice(LOOPS["fedbuff"](method, running, schedule, None), 8):
            assert len(running.under_way()) <= 2
            assert one.row["clients"] == 1


def test_a_lost_client_holds_nobody_up_and_comes_back() -> None:
    fleet = fleets.FleetConfig(client=(fleets.ClientConfig(count=5), fleets.ClientConfig(drop_rate=0.5)))
    closed = steps("fedbuff", 40, fleet=fleet)
    lost = [line for one in closed for line in one.incidents]
    assert {line["client"] for line in lost} == {5}
    assert any(line["client"] == 5 for one in closed for line in one.ledger)


def fail(patch: pytest.MonkeyPatch, rounds: set[int]) -> None:
    """Let the clients that have a drop rate fail if they are posted in these rounds, and in no others."""
    patch.setattr(
        Reliability, "fails", lambda self, round, attempt=0: "training" if self.drop_rate and round in rounds else None
    )


@pytest.mark.parametrize("name", ["fedbuff", "fedasync", "fedsa"])
def test_a_client_lost_on_its_first_trip_is_posted_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No trip is known when it is posted, and the others' steps go on before it could have answered."""
    fail(monkeypatch, {1})
    slow = fleets.ClientConfig(epoch_seconds=60.0, drop_rate=0.5)
    closed = steps(name, 200, fleet=fleets.FleetConfig(client=(fleets.ClientConfig(count=5), slow)))
    kinds = [line["kind"] for one in closed for line in one.incidents]
    assert kinds[0] == "lost"
    assert len(kinds) <= 4  # late until its deadline has grown to its own pace
    assert any(line["client"] == 5 for one in closed for line in one.ledger)


def test_a_lost_client_is_given_up_after_its_own_usual_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after that of a client ten times slower, which is never called late."""
    fail(monkeypatch, set(range(60, 65)))
    lossy, slow = fleets.ClientConfig(drop_rate=0.5), fleets.ClientConfig(epoch_seconds=155.0)
    closed = steps("fedasync", 120, fleet=fleets.FleetConfig(client=(fleets.ClientConfig(count=4), lossy, slow)))
    assert {line["client"] for one in closed for line in one.incidents} == {4}
    assert {line["client"] for one in closed for line in one.ledger} == set(range(6))
    away = np.diff([one.row["seconds"] for one in closed for line in one.ledger if line["client"] == 4])
    assert max(away) < 3 * np.median(away)


def test_deadlines_free_the_place_of_a_client_that_is_late() -> None:
    closed = steps("fedbuff", 10, replace(SCHEDULE, deadline_seconds=30.0), fleet=SLOW)
    assert {line["kind"] for one in closed for line in one.incidents if line["client"] == 5} == {"late"}
    assert all(line["client"] != 5 for one in closed for line in one.ledger)


def test_a_run_that_diverged_or_reaches_nobody_says_so() -> None:
    with pytest.raises(DivergedError, match="diverged in round 1"):
        steps("fedbuff", 3, spec=ToySpec(clients=1, broken=0))
    gone = fleets.FleetConfig(client=(fleets.ClientConfig(count=6, leave_round=1),))
    with pytest.raises(AdagqError, match="20 attempts in a row"):
        steps("fedbuff", 3, fleet=gone)


def test_one_diverging_client_is_left_out() -> None:
    closed = steps("fedbuff", 6, spec=replace(SPEC, broken=1))
    assert 1 not in {line["client"] for one in closed for line in one.ledger}
    assert {line["kind"] for one in closed for line in one.incidents} == {"diverged"}


@pytest.mark.parametrize("knobs", [{"arrivals": 0}, {"rate": 0.0}, {"rate": 2.0}, {"exponent": -1.0}, {"lag": 0}])
def test_bad_knobs_name_themselves(knobs: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(knobs))):
        Buffered(**knobs)
