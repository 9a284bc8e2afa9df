"""Thousands of clients of whom a run sees a few: unseen ones cost bytes, and the rows are anyone's."""

import json
import tracemalloc

import numpy as np
import pytest

from adagq.control import Fit
from adagq.control.fit_state import COLUMNS
from adagq.experiments.config import load_config
from adagq.experiments.runner import run
from adagq.learners import LearningTask
from adagq.methods.table import METHODS
from adagq.rounds.schedule import Schedule
from adagq.rounds.state import begin
from adagq.simulation.backend import Simulated
from adagq.simulation.fleet import build, paper
from adagq.simulation.processes import open_pool

CROWD = (
    "task.data='users'", "task.partition='natural'", "task.shape=[1,8,8]", "task.model='mlp'", "task.width=8",
    "task.clients=3000", "task.test_samples=100", "fleet={}", "methods=['adagq-fit']", "training.target=1.0",
    "training.max_rounds=3", "training.participants=5",
)  # fmt: skip


def test_a_client_that_is_never_seen_costs_bytes():
    few, many = 1_000, 51_000
    memory(few)  # imports what else would be counted
    assert (memory(many) - memory(few)) / (many - few) < 200  # eight columns of adagq-fit are 64 of them


def memory(clients):
    task = LearningTask(
        data="users", model="mlp", width=4, partition="natural", clients=clients, shape=(1, 4, 4), test_samples=10
    )
    tracemalloc.start()
    population = task.build()
    with open_pool(1) as pool:
        method = METHODS["adagq-fit"]
        backend = Simulated(pool, population, build(paper(clients=clients), 0), method, 0)
        state = begin(method, backend, Schedule(seed=0, participants=10))
        held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert state.broadcaster.versions[clients - 1] == 0
    return held


def test_a_crowd_gives_the_same_rows_on_any_number_of_workers_and_in_two_parts(tmp_path):
    config = load_config(None, CROWD)
    for folder, workers in (("one", 1), ("two", 2)):
        list(run(config, tmp_path / folder, workers))
    half = run(config, tmp_path / "half", 1)
    next(half)
    half.close()
    list(run(config, tmp_path / "half", 1, resume=True))
    rows = [(tmp_path / folder / "rows.jsonl").read_bytes() for folder in ("one", "two", "half")]
    assert rows[0] == rows[1] == rows[2]
    ledger = [json.loads(line) for line in (tmp_path / "one" / "ledger.jsonl").read_text().splitlines()]
    assert len({line["client"] for line in ledger}) > 10
    assert (tmp_path / "one" / "checkpoint.npz").stat().st_size < 100_000  # no client's samples, no client's model


def test_only_clients_that_were_met_are_in_a_controllers_json():
    state = Fit().init(100_000)
    for name in COLUMNS:
        getattr(state, name)[[7, 99_999]] = 2.0
    plain = state.to_json()
    assert plain["met"] == [7, 99_999]
    assert len(json.dumps(plain)) < 1000
    again = Fit().from_json(plain)
    assert all(np.array_equal(getattr(again, name), getattr(state, name), equal_nan=True) for name in COLUMNS)


def test_a_fleet_makes_a_client_when_it_is_asked_for():
    fleet = build(paper(clients=100_000, join_round=2), 3)
    assert fleet.clients[99_999] == build(paper(clients=100_000, join_round=2), 3).clients[-1]
    assert fleet.present(1) == ()
    assert len(fleet.present(2)) == 100_000
    with pytest.raises(IndexError):
        fleet.clients[100_000]
