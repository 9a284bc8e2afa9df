"""The loop over toy clients: every step's message, and a state that can be left and taken up again."""

import copy
import json
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pytest
from test_feedback import Noisy

from adagq.codecs import Float32
from adagq.control import AdaComm
from adagq.core.errors import DivergedError
from adagq.core.vectors import Layout
from adagq.methods.table import METHODS, Method, method_of
from adagq.rounds import RoundResult, Schedule, synchronous
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.processes import open_pool
from toy import ToySpec

SPEC = ToySpec()
# A tenth of 40 entries is not much, and a basis that turns every round leaves most of a made-up matrix for later.
FEW_ENTRIES = {
    "topk": 0.4,
    "topk-plain": 0.4,
    "topk-tuned": 0.4,
    "cocktail": 0.25,
    "han": 0.25,
    "stc": 0.4,
    "tcs": 0.4,
    "powersgd": 0.5,
}
FEW_ENTRIES |= {"signsgd-vote": 0.6}  # steps of one size stop short of the target
TOY_KNOBS = {
    "dgc": {"fraction": 0.25}, "stc": {"fraction": 0.25}, "tcs": {"shared": 0.25, "own": 0.1},
    "signsgd-vote": {"rate": 0.1, "momentum": 0.0}, "fedfq": {"bits": 2.0}, "powersgd": {"rank": 1},
    "wangni": {"fraction": 0.1},
}  # fmt: skip


@dataclass(frozen=True)
class Sent(Noisy):
    """A noisy codec whose payloads pass as the floats that they are."""

    def mismatch(self, payload, fitted=False):
        return Float32().mismatch(payload, fitted)


SCHEDULE = Schedule(seed=5, learning_rate=0.2)


def backend(pool, method: Method, spec: ToySpec = SPEC, fleet: fleets.FleetConfig | None = None) -> Simulated:
    pool.prepare(spec, spec.layout)
    built = fleets.build(fleet or fleets.paper(clients=spec.clients), seed=5)
    return Simulated(pool, spec.build(), built, method, seed=5)


def rounds(method: Method, count: int, schedule: Schedule = SCHEDULE, **given) -> list[RoundResult]:
    with open_pool(1) as pool:
        closed = synchronous(method, backend(pool, method, **given), schedule)
        return [copy.deepcopy(one) for one in islice(closed, count)]


def toy_method(name: str) -> Method:
    """Return a row for a model of 40 entries, of which a hundredth is none."""
    method = method_of(name)
    uplink = replace(method.uplink, **TOY_KNOBS.get(name, {}))
    # Twenty epochs reach all that there is to learn here in the first round.
    controller = AdaComm(epochs=10) if name == "adacomm" else method.controller
    return replace(method, uplink=uplink, controller=controller, downlink=uplink if name == "stc" else method.downlink)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns(name: str) -> None:
    rows = [closed.row for closed in rounds(toy_method(name), 12)]
    assert [row["round"] for row in rows] == list(range(1, 13))
    assert rows[-1]["accuracy"] > rows[0]["accuracy"]
    assert rows[-1]["accuracy"] > FEW_ENTRIES.get(name, 0.9)
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
    assert cohorts == [schedule.cohort(round, range(4)) for round in range(1, 13)]
    assert closed[-1].row["accuracy"] > closed[0].row["accuracy"]


def test_late_clients_get_the_full_model_once() -> None:
    """With a small downlink: float32 of all parameters when client 3 joins, then the same step as everybody."""
    spans = (fleets.ClientConfig(count=3), fleets.ClientConfig(join_round=3))
    spec = ToySpec(layout=Layout.of_sizes([3000]))
    closed = rounds(method_of("adagq-fit"), 6, spec=spec, fleet=fleets.FleetConfig(client=spans))
    assert [one.row["clients"] for one in closed] == [3, 3, 4, 4, 4, 4]
    whole = len(Float32().encode(np.zeros(3000, np.float32)))
    for one in closed[2:]:
        *others, late = [line["download_bytes"] for line in one.ledger]
        assert len(set(others)) == 1
        assert others[0] < whole / 3
        assert late == (whole if one.row["round"] == 3 else others[0])


def test_client_whose_training_diverged_is_left_out() -> None:
    closed = rounds(method_of("fedavg"), 3, spec=ToySpec(broken=1))
    assert [line["client"] for line in closed[-1].ledger] == [0, 2, 3]


@pytest.mark.parametrize("exchanges", [1, 2])
def test_a_run_that_diverged_says_so(exchanges: int) -> None:
    """0.1 ended such a run without a word."""
    spec = ToySpec(clients=1, broken=0)
    with pytest.raises(DivergedError, match=r"diverged in round 1: learning rate too high\? \(.*not finite\)"):
        rounds(method_of("fedavg"), 3, replace(SCHEDULE, exchanges=exchanges), spec=spec)


def test_noise_to_signal_is_that_of_the_average() -> None:
    method = replace(method_of("qsgd"), uplink=Sent(0.8))
    row = rounds(method, 1)[0].row
    assert row["nsr"] == pytest.approx(0.8 / 4, rel=0.5)  # four clients: a quarter of one's


def test_residuals_are_kept_per_client_and_forgotten_between_runs() -> None:
    method = replace(method_of("qsgd"), uplink=Sent(3.0), residual=True)
    with open_pool(1) as pool:
        running = backend(pool, method)
        first = [closed.row for closed in islice(synchronous(method, running, SCHEDULE), 6)]
        kept = running.checkpoint()
        assert all(kept[f"state_{client}_residual"].any() for client in range(4))
        again = [closed.row for closed in islice(synchronous(method, backend(pool, method), SCHEDULE), 6)]
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
        state = list(islice(synchronous(method, running, SCHEDULE), 3))[-1].state
        state.control = method.controller.from_json(json.loads(json.dumps(state.control.to_json())))
        rest = [closed.row for closed in islice(synchronous(method, running, SCHEDULE, state), 3)]
    assert rest == whole[3:]
