"""Loops without a barrier over nodes: one slow node keeps nobody waiting, and its update counts when it comes."""

import copy
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord, RecordDict

from adagq.flower.backend import Nodes
from adagq.methods.table import method_of
from adagq.rounds import LOOPS, RoundResult, Schedule
from loopback import LoopbackGrid, late
from toy import ToySpec

SEED, SLOW, SLOW_SECONDS = 5, 3, 4.0


def nodes_of(grid: LoopbackGrid, run: str = "a-run") -> Nodes:
    population = grid.population
    return Nodes(grid, population.layout, population.initial(SEED), run, population.evaluate)


def schedule_of(**options) -> Schedule:
    return Schedule(seed=SEED, **{"learning_rate": 0.2, "deadline_seconds": 30.0} | options)


@pytest.fixture
def grid(tmp_path: Path) -> LoopbackGrid:
    return LoopbackGrid(ToySpec().build(), tmp_path)


def steps(grid: LoopbackGrid, name: str, count: int, **options) -> list[RoundResult]:
    method = method_of(name)
    method = replace(method, epochs=min(method.epochs, 5))  # the toy is there after one step of more, then only swings
    closed = LOOPS[method.loop](method, nodes_of(grid), schedule_of(**options), None)
    return [copy.deepcopy(one) for one in islice(closed, count)]


@pytest.mark.parametrize("name", ["fedbuff", "fedasync", "fedsa", "qafel"])
def test_every_loop_learns_over_nodes(name: str, grid: LoopbackGrid) -> None:
    rows = [one.row for one in steps(grid, name, 8)]
    assert [row["round"] for row in rows] == list(range(1, 9))
    assert rows[-1]["accuracy"] > rows[0]["accuracy"]
    assert all(row["refused"] == row["failed"] == 0 for row in rows)


def test_one_slow_node_keeps_nobody_waiting(grid: LoopbackGrid) -> None:
    """Steps of two arrivals go on while the slow node trains; its update counts later, and is that much older."""
    grid.spoil[1000 + SLOW] = late(SLOW_SECONDS)
    method, closed = method_of("fedbuff"), []
    for one in LOOPS["fedbuff"](method, nodes_of(grid), schedule_of(), None):
        closed.append(copy.deepcopy(one))
        if any(line["client"] == SLOW for line in one.ledger) or len(closed) == 200:
            break
    before, last = closed[:-1], closed[-1]
    assert len(before) >= 4
    assert all(line["client"] != SLOW for one in before for line in one.ledger)
    assert np.median([one.row["round_seconds"] for one in before]) < SLOW_SECONDS / 3
    (slow,) = (line for line in last.ledger if line["client"] == SLOW)
    assert slow["staleness"] == len(before)
    busy = slow["download_seconds"] + slow["compute_seconds"] + slow["upload_seconds"]
    assert busy + slow["waiting_seconds"] > 0.8 * SLOW_SECONDS  # its own trip, not the step's seconds
    assert not [line for line in last.incidents if line["kind"] != "clamped"]


def test_a_node_that_is_late_is_given_up_and_asked_again(grid: LoopbackGrid) -> None:
    waits = iter([SLOW_SECONDS])

    def once(asked: RecordDict, answered: RecordDict) -> RecordDict | None:
        if "adagq.task" not in asked:
            return answered
        return None if next(waits, 0.0) else answered

    grid.spoil[1000 + SLOW] = once
    closed = steps(grid, "fedbuff", 14, deadline_seconds=1.5)
    assert [line["kind"] for one in closed for line in one.incidents if line["client"] == SLOW].count("late") == 1
    assert any(line["client"] == SLOW for one in closed for line in one.ledger)


def test_a_node_that_lost_its_model_gets_the_version_that_it_was_posted(grid: LoopbackGrid) -> None:
    """The server has moved on when the node says so: what it gets then must be the model of its own task."""
    first = {"left": 1}

    def forgets(asked: RecordDict, answered: RecordDict) -> RecordDict:
        if "adagq.task" in asked and first["left"] and dict(asked["adagq.sync"])["version"] > 0:
            first["left"] = 0
            time.sleep(1.0)
            return RecordDict({"adagq.node": ConfigRecord({"version": -1, "stale": "forgotten"})})
        return answered

    grid.spoil[1000 + SLOW] = forgets
    closed = steps(grid, "fedbuff", 16)
    assert not first["left"]
    assert not [line for one in closed for line in one.incidents if line["kind"] != "clamped"]
    versions = {}
    for node, asked in grid.asked:
        if "adagq.sync" in asked and node != 1000 + SLOW:
            versions[dict(asked["adagq.sync"])["version"]] = asked["adagq.run"]["digest"]
    for node, asked in grid.asked:
        if node == 1000 + SLOW and "adagq.sync" in asked:
            version = dict(asked["adagq.sync"])["version"]
            assert asked["adagq.run"]["digest"] == versions.get(version, asked["adagq.run"]["digest"])


def test_a_run_goes_on_with_other_messages_after_the_server_was_gone(grid: LoopbackGrid) -> None:
    method = method_of("fedbuff")
    nodes = nodes_of(grid)
    state = list(islice(LOOPS["fedbuff"](method, nodes, schedule_of(), None), 3))[-1].state
    assert state.loop["flights"]
    again = nodes_of(grid, "another-name")
    again.restore(nodes.checkpoint())
    again.adopt(state.model.vector, state.model.buffers)
    rows = [one.row for one in islice(LOOPS["fedbuff"](method, again, schedule_of(), copy.deepcopy(state)), 3)]
    assert [row["round"] for row in rows] == [4, 5, 6]
    assert all(row["refused"] == 0 for row in rows)
