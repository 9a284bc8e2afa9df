"""Any subset of clients may fail at any step of any round; the run goes on, and so does a resumed one."""

import json
import math
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_synchronous import FEW_ENTRIES, SCHEDULE, backend, rounds, toy_method

from adagq.core.codec import levels_of
from adagq.core.errors import AdagqError
from adagq.experiments.checkpoint import load, save
from adagq.experiments.config import Training
from adagq.experiments.runner import simulate
from adagq.methods.table import METHODS, method_of
from adagq.rounds.synchronous import MAX_ATTEMPTS, synchronous
from adagq.simulation import fleet as fleets
from adagq.simulation.fleet.failures import STEPS, Reliability
from adagq.simulation.processes import open_pool
from toy import ToySpec

FLAKY = fleets.paper(clients=4, drop_rate=0.4)


@pytest.mark.parametrize("exchanges", [1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_with_a_third_of_the_clients_failing(name: str, exchanges: int) -> None:
    closed = rounds(
        toy_method(name), 25, replace(SCHEDULE, exchanges=exchanges), fleet=fleets.paper(clients=4, drop_rate=0.3)
    )
    rows = [one.row for one in closed]
    assert rows[-1]["accuracy"] > FEW_ENTRIES.get(name, 0.9)
    assert sum(row["failed"] for row in rows) == pytest.approx(0.3 * 4 * 25, abs=12)
    for one in closed:
        assert one.row["attempts"] > 1 or one.row["clients"] + one.row["failed"] == 4
        assert {line["kind"] for line in one.incidents} <= {"lost", "late"}
    json.dumps([(one.row, one.ledger, one.incidents) for one in closed], allow_nan=False)


def test_a_round_with_someone_missing_lasts_until_the_deadline() -> None:
    closed = rounds(method_of("fedavg"), 12, fleet=FLAKY)
    for before, one in pairwise(closed[1:]):
        whole = one.row["failed"] == 0
        deadline = 1.5 * max(before.state.pace.arrivals)
        waited = one.row["round_seconds"] - one.row["server_seconds"]
        assert waited < deadline if whole else waited >= 0.99 * deadline


def test_the_mean_is_over_what_arrived() -> None:
    """Two clients that pull to 1 ± a: with one of them gone the model goes where the other pulls."""
    gone = (fleets.ClientConfig(count=3), fleets.ClientConfig(leave_round=1))
    three = rounds(method_of("fedavg"), 5, fleet=fleets.FleetConfig(client=gone))
    later = (fleets.ClientConfig(count=3), fleets.ClientConfig(join_round=99))
    alone = rounds(method_of("fedavg"), 5, fleet=fleets.FleetConfig(client=later))
    np.testing.assert_array_equal(three[-1].state.model.vector, alone[-1].state.model.vector)
    assert all(line["reason"] == "did not report" for one in three for line in one.incidents)


def test_too_few_updates_repeat_the_round_and_its_seconds_count() -> None:
    closed = rounds(method_of("adagq"), 10, replace(SCHEDULE, min_updates=4), fleet=FLAKY)
    assert [one.row["round"] for one in closed] == list(range(1, 11))
    assert {one.row["clients"] for one in closed} == {4}
    attempts = [one.row["attempts"] for one in closed]
    assert max(attempts) > 1
    assert closed[-1].row["seconds"] > sum(one.row["round_seconds"] for one in closed) + 10


def test_a_round_that_never_succeeds_says_what_happened() -> None:
    with pytest.raises(
        AdagqError, match=rf"round 1: {MAX_ATTEMPTS} attempts .* 4 lost; the last reason: did not report"
    ):
        rounds(method_of("fedavg"), 1, fleet=fleets.paper(clients=4, availability=0.0))


def test_an_update_that_did_not_arrive_stays_in_the_residual() -> None:
    """A client whose uploads fail keeps what it trained; once one arrives, all of it does."""
    method = replace(method_of("fedavg"), residual=True)
    with open_pool(1) as pool:
        running = backend(pool, method, fleet=fleets.FleetConfig(client=(fleets.ClientConfig(count=4),)))
        clients = list(running.fleet.clients)
        clients[0] = replace(clients[0], reliability=_Failing("upload"))
        running.fleet = replace(running.fleet, clients=tuple(clients))
        list(islice(synchronous(method, running, SCHEDULE), 1))
        kept = running.checkpoint()
    # Float32 loses nothing, so without the failure there would be no residual.
    assert [name for name in kept if "residual" in name] == ["state_0_residual"]
    assert kept["state_0_residual"].any()


class _Failing(Reliability):
    def __init__(self, step) -> None:
        super().__init__()
        object.__setattr__(self, "seed", step)

    def fails(self, round: int, attempt: int = 0):
        return self.seed


class _Scripted(Reliability):
    """Fails where the script says."""

    script: dict = {}  # noqa: RUF012

    def fails(self, round: int, attempt: int = 0):
        return _Scripted.script.get((self.seed, round, attempt))


steps = st.sampled_from([None, None, *STEPS])
scripts = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(0, 3)), steps, max_size=60)


@settings(max_examples=25, deadline=None)
@given(scripts, st.sampled_from(["adagq", "adagq-fit", "topk"]), st.sampled_from([1, 2]), st.integers(1, 4))
def test_no_subset_of_failures_breaks_the_loop(script, name: str, exchanges: int, min_updates: int) -> None:
    method = method_of(name)
    _Scripted.script = script
    with open_pool(1) as pool:
        running = backend(pool, method)
        fleet = running.fleet
        scripted = (replace(c, reliability=_Scripted(seed=index)) for index, c in enumerate(fleet.clients))
        running.fleet = replace(fleet, clients=tuple(scripted))
        schedule = replace(SCHEDULE, exchanges=exchanges, min_updates=min_updates)
        for one in islice(synchronous(method, running, schedule), 6):
            assert one.row["clients"] >= min_updates
            assert math.isfinite(one.row["seconds"])
            json.dumps((one.row, one.ledger, one.incidents), allow_nan=False)
            control = json.dumps(one.state.control.to_json(), allow_nan=False)  # NaN or infinity would not pass
            assert "-" not in control.replace("e-", "")
            for choice in method.controller.choose(one.state.control, range(4), method.uplink).values():
                assert choice.codec is None or levels_of(choice.codec) >= 0
                assert (choice.budget_bytes or 1) >= 1


@pytest.mark.parametrize("name", ["adagq", "adagq-fit", "qsgd+residual"])
def test_a_flaky_run_is_taken_up_from_its_checkpoint(tmp_path: Path, name: str) -> None:
    method, path = method_of(name), tmp_path / "checkpoint.npz"
    run = {"method": name, "seed": SCHEDULE.seed, "marks": {}, "settings": "these"}
    schedule = replace(SCHEDULE, min_updates=3, norm_bound=50.0)
    with open_pool(1) as pool:
        running, whole = backend(pool, method, fleet=FLAKY), []
        for one in islice(synchronous(method, running, schedule), 9):
            whole.append((one.row, one.incidents))
            if one.row["round"] == 5:
                save(path, run, one.state, running.checkpoint())
    saved = load(path)
    assert saved is not None
    with open_pool(1) as pool:
        running = backend(pool, method, fleet=FLAKY)
        running.restore(saved.backend)
        state = saved.restore(method, running.layout)
        rest = [(one.row, one.incidents) for one in islice(synchronous(method, running, schedule, state), 4)]
    assert rest == whole[5:]


def test_one_exchange_saves_the_wait_for_the_decision() -> None:
    """Where computing is short and the latency long, report and task are worth a trip; losses come a round late."""
    distant = fleets.paper(clients=4, epoch_seconds=0.1, latency_seconds=2.0)
    two = rounds(method_of("adagq"), 6, fleet=distant)
    one = rounds(method_of("adagq"), 6, replace(SCHEDULE, exchanges=1), fleet=distant)
    saved = [a.row["round_seconds"] - b.row["round_seconds"] for a, b in zip(two, one, strict=True)]
    assert saved[0] == pytest.approx(0.0)  # nothing is probed in the first round
    assert saved[2] == pytest.approx(4.0, abs=1.0)  # report and task travel for 2 s each
    assert one[-1].row["accuracy"] > one[0].row["accuracy"]


def test_settings_reach_the_loop() -> None:
    training = Training(target=1.0, max_rounds=3, exchanges=1, deadline_seconds=120.0, learning_rate=0.2)
    flaky = fleets.paper(clients=4, drop_rate=0.4)
    rows = list(simulate(ToySpec().build(), "fedavg", flaky, training))
    assert all(row["round_seconds"] == pytest.approx(120.0, abs=1) for row in rows if row["failed"])
