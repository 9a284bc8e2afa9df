"""The loop over toy clients: every step's message, and a state that can be left and taken up again."""

import copy
import json
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from adagq import fleet as fleets
from adagq.backends.processes import open_pool
from adagq.backends.simulated import Simulated
from adagq.federation import Closed, Schedule
from adagq.methods import METHODS, Method, method_of
from adagq.rounds import federate
from test_feedback import Noisy
from toy import LAYOUT, ToySpec

SPEC = ToySpec()
SCHEDULE = Schedule(seed=5, clients=4, learning_rate=0.2)


def backend(pool, method: Method, spec: ToySpec = SPEC, fleet: fleets.FleetConfig | None = None) -> Simulated:
    pool.prepare(spec, spec.layout)
    built = fleets.build(fleet or fleets.paper(clients=spec.clients), seed=5)
    return Simulated(pool, spec.build(), built, method, seed=5)


def rounds(method: Method, count: int, schedule: Schedule = SCHEDULE, **given) -> list[Closed]:
    with open_pool(1) as pool:
        closed = federate(method, backend(pool, method, **given), schedule)
        return [copy.deepcopy(one) for one in islice(closed, count)]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns(name: str) -> None:
    rows = [closed.row for closed in rounds(method_of(name), 12)]
    assert [row["round"] for row in rows] == list(range(1, 13))
    assert rows[-1]["accuracy"] > rows[0]["accuracy"]
    assert rows[-1]["accuracy"] > (0.4 if name.startswith("topk") else 0.9)  # a tenth of 40 entries is not much
    json.dumps(rows, allow_nan=False)


@pytest.mark.parametrize("name", METHODS)
def test_ledger_adds_up_to_the_round(name: str) -> None:
    for closed in rounds(method_of(name), 4):
        row = closed.row
        for line in closed.ledger:
            parts = [line[f"{part}_seconds"] for part in ("download", "compute", "upload", "waiting")]
            assert sum(parts) + row["server_seconds"] == pytest.approx(row["round_seconds"])
            assert min(parts) >= 0
        for key in ("upload_bytes", "download_bytes"):
            assert sum(line[key] for line in closed.ledger) == row[key]
        for part in ("compute", "upload", "download", "waiting"):
            mean = np.mean([line[f"{part}_seconds"] for line in closed.ledger])
            assert row[f"{part}_seconds"] == pytest.approx(mean)
        assert row["clients"] == len(closed.ledger)


def test_virtual_time_is_the_sum_of_the_rounds() -> None:
    rows = [closed.row for closed in rounds(method_of("fedavg"), 5)]
    assert rows[-1]["seconds"] == pytest.approx(sum(row["round_seconds"] for row in rows))


def test_first_round_downloads_nothing_since_the_first_model_comes_from_the_seed() -> None:
    first, second = rounds(method_of("fedavg"), 2)
    assert first.row["download_bytes"] == 0
    assert second.row["download_bytes"] == second.row["upload_bytes"]


def test_partial_participation() -> None:
    schedule = replace(SCHEDULE, participants=2)
    closed = rounds(method_of("fedavg"), 12, schedule)
    cohorts = [tuple(line["client"] for line in one.ledger) for one in closed]
    assert {len(cohort) for cohort in cohorts} == {2}
    assert len(set(cohorts)) > 2
    assert cohorts == [schedule.cohort(round) for round in range(1, 13)]
    assert closed[-1].row["accuracy"] > closed[0].row["accuracy"]


def test_late_clients_get_the_full_model_once() -> None:
    spans = (fleets.ClientConfig(count=3), fleets.ClientConfig(join_round=3))
    schedule = replace(SCHEDULE, joins={3: 3})
    closed = rounds(method_of("fedavg"), 4, schedule, fleet=fleets.FleetConfig(client=spans))
    assert [one.row["clients"] for one in closed] == [3, 3, 4, 4]
    late = [line for one in closed for line in one.ledger if line["client"] == 3]
    others = [line for line in closed[2].ledger if line["client"] != 3]
    assert late[0]["download_bytes"] == others[0]["download_bytes"]  # a float32 model is a float32 aggregate


def test_client_whose_training_diverged_is_left_out() -> None:
    closed = rounds(method_of("fedavg"), 3, spec=ToySpec(broken=1))
    assert [line["client"] for line in closed[-1].ledger] == [0, 2, 3]


def test_run_ends_when_nobody_sends() -> None:
    assert rounds(method_of("fedavg"), 3, replace(SCHEDULE, clients=1), spec=ToySpec(clients=1, broken=0)) == []


def test_noise_to_signal_is_that_of_the_average() -> None:
    method = replace(method_of("qsgd"), uplink=Noisy(0.8))
    row = rounds(method, 1)[0].row
    assert row["nsr"] == pytest.approx(0.8 / 4, rel=0.5)  # four clients: a quarter of one's


def test_residuals_are_kept_per_client_and_forgotten_between_runs() -> None:
    method = replace(method_of("qsgd"), uplink=Noisy(3.0), residual=True)
    with open_pool(1) as pool:
        first = [closed.row for closed in islice(federate(method, backend(pool, method), SCHEDULE), 6)]
        kept = np.fromfile(pool.residuals, np.float32).reshape(4, LAYOUT.elements)
        assert kept.any(axis=1).all()
        again = [closed.row for closed in islice(federate(method, backend(pool, method), SCHEDULE), 6)]
    assert first == again
    plain = rounds(replace(method, residual=False), 6)
    assert [closed.row["norm"] for closed in plain] != [row["norm"] for row in first]


@pytest.mark.parametrize("name", METHODS)
def test_a_run_can_be_taken_up_at_a_round_boundary(name: str) -> None:
    """The controller's part of the state goes through JSON, as a checkpoint does."""
    method = method_of(name)
    whole = [closed.row for closed in rounds(method, 6)]
    with open_pool(1) as pool:
        running = backend(pool, method)
        state = list(islice(federate(method, running, SCHEDULE), 3))[-1].state
        state.control = method.controller.from_json(json.loads(json.dumps(state.control.to_json())))
        rest = [closed.row for closed in islice(federate(method, running, SCHEDULE, state), 3)]
    assert rest == whole[3:]
