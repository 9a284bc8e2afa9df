"""The loop over nodes: the simulator's numbers where nothing fails, and rounds that go on where something does."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, RecordDict

from adagq.client.learner import least_epochs
from adagq.core.messages import Update
from adagq.flower.backend import Nodes
from adagq.flower.names import NODE
from adagq.flower.node import _Timed
from adagq.flower.records import STYPE
from adagq.flower.timing import Timing
from adagq.flower.transport import Reply
from adagq.methods.table import METHODS, method_of
from adagq.rounds import RoundResult, Schedule, synchronous
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.processes import open_pool
from loopback import LoopbackGrid, late
from toy import ToySpec

SEED = 5
FIXED = ("fedavg", "fedavg-fp16", "qsgd", "topk", "fedpaq", "qsgd+residual")


def nodes_of(grid: LoopbackGrid) -> Nodes:
    population = grid.population
    return Nodes(grid, population.layout, population.initial(SEED), "a-run", population.evaluate)


def schedule_of(**options) -> Schedule:
    return Schedule(seed=SEED, **{"learning_rate": 0.2, "deadline_seconds": 30.0} | options)


def run(grid: LoopbackGrid, name: str, count: int, **options) -> list[RoundResult]:
    return list(islice(synchronous(method_of(name), nodes_of(grid), schedule_of(**options)), count))


@pytest.fixture
def grid(tmp_path: Path) -> LoopbackGrid:
    return LoopbackGrid(ToySpec().build(), tmp_path)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns(name: str, grid: LoopbackGrid) -> None:
    closed = run(grid, name, 4)
    accuracies = [one.row["accuracy"] for one in closed]
    assert accuracies[-1] > min(accuracies[0], 0.99)  # many local epochs are there after one round
    assert all(not one.incidents for one in closed)
    json.dumps([one.row for one in closed], allow_nan=False)


@pytest.mark.parametrize("exchanges", [1, 2])
@pytest.mark.parametrize("name", FIXED)
def test_methods_that_adapt_to_nothing_send_the_simulators_bytes(
    name: str, exchanges: int, grid: LoopbackGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    payloads: dict[str, list[bytes]] = {"nodes": [], "simulated": []}

    def noting(kind, where: str):
        class Noting(kind):
            def add_clipped(self, update, *limits) -> float:
                payloads[where].append(bytes(update.payload) + bytes(update.buffers))
                return super().add_clipped(update, *limits)

        return Noting

    from adagq.server import robust

    plain = robust.Aggregate
    monkeypatch.setattr(robust, "Aggregate", noting(plain, "nodes"))
    real = [one.row for one in run(grid, name, 3, exchanges=exchanges)]
    monkeypatch.setattr(robust, "Aggregate", noting(plain, "simulated"))
    method = method_of(name)
    with open_pool(1) as pool:
        pool.prepare(ToySpec(), grid.population.layout)
        backend = Simulated(pool, grid.population, fleets.build(fleets.paper(clients=4), SEED), method, SEED)
        schedule = Schedule(seed=SEED, learning_rate=0.2, exchanges=exchanges)
        virtual = [one.row for one in islice(synchronous(method, backend, schedule), 3)]
    assert payloads["nodes"] == payloads["simulated"]
    for key in ("norm", "upload_bytes", "levels", "nsr"):
        assert [row[key] for row in real] == [row[key] for row in virtual]


def test_seconds_add_up_and_exchanges_are_noted(grid: LoopbackGrid) -> None:
    nodes = nodes_of(grid)
    for closed in islice(synchronous(method_of("adagq"), nodes, schedule_of()), 3):
        row = closed.row
        for line in closed.ledger:
            parts = [line[f"{part}_seconds"] for part in ("download", "compute", "upload", "waiting")]
            assert min(parts) >= 0
            assert sum(parts) + row["server_seconds"] == pytest.approx(row["round_seconds"], abs=0.05)
        probed = row["round"] > 1  # then four nodes get a sync and a task each; else both travel together
        assert len(nodes.exchanges) == (8 if probed else 4)
        assert all(line["exchange_seconds"] > 0 for line in nodes.exchanges)
        trained = [line for line in nodes.exchanges if line["upload_bytes"] > 0]
        assert all(line["train_seconds"] > 0 and line["encode_seconds"] > 0 for line in trained)


class Empty:
    sent_bytes = 0


def test_seconds_add_up_where_flower_keeps_the_busiest_node_shortest() -> None:
    timing = Timing()
    timing.begin()
    for client, steps in enumerate((10.0, 4.0, 4.0)):  # of exchanges that last 10 s each: Flower's part is 6 s
        said = RecordDict({NODE: ConfigRecord({"train-seconds": steps})})
        timing.measure(1, 1, client, "node", Reply(client, client, said, "", 0.0, 0.0, 10.0, 0.0), Empty())
    assert timing.own_seconds() == 6.0
    for client in range(3):
        update = Update(client, 1, 1, b"", b"", 1, 1.0, 0.0)
        receipt = timing.settled(timing.receipt(update, 10.0), until_seconds=4.0)
        assert (receipt.compute_seconds, receipt.waiting_seconds) == (4.0, 0.0)


def test_the_model_goes_out_whole_once_and_only_to_those_without_it(grid: LoopbackGrid) -> None:
    run(grid, "adagq-fit", 3)
    bases = [content["adagq.sync"]["base-version"] for _, content in grid.asked if "adagq.sync" in content]
    assert bases == [-1] * 4 + [0] * 4 + [1] * 4


def test_one_message_for_each_node(grid: LoopbackGrid) -> None:
    run(grid, "adagq", 2, exchanges=1)
    sent = [id(content) for _, content in grid.asked]
    assert len(set(sent)) == len(sent)
    clients = [(node, content["adagq.sync"]["client"]) for node, content in grid.asked if "adagq.sync" in content]
    assert all(grid.nodes[node] == client for node, client in clients)


def spoiled(key: str, value: object):
    """Return a spoiler that changes one field of every update."""

    def change(asked: RecordDict, answered: RecordDict) -> RecordDict:
        if "adagq.update" in answered:
            answered["adagq.update"][key] = value
        return answered

    return change


def with_payload(payload: bytes):
    def change(asked: RecordDict, answered: RecordDict) -> RecordDict:
        if "adagq.update.arrays" in answered:
            array = Array(dtype="uint8", shape=(len(payload),), stype=STYPE, data=payload)
            answered["adagq.update.arrays"] = ArrayRecord({"payload": array, "buffers": _buffers(answered)})
        return answered

    return change


def _buffers(answered: RecordDict) -> Array:
    return answered["adagq.update.arrays"]["buffers"]


def wrong_size() -> bytes:
    return method_of("fedavg").uplink.encode(np.ones(7, np.float32))


def not_finite() -> bytes:
    payload = bytearray(method_of("fedavg").uplink.encode(np.ones(40, np.float32)))
    payload[-4:] = np.float32(np.nan).tobytes()
    from adagq.codecs.wire import checksum

    payload[8:16] = checksum(payload).to_bytes(8, "little")
    return bytes(payload)


SPOILERS = {
    "garbage": with_payload(b"not a payload at all, but long enough to look like one: " + bytes(64)),
    "wrong size": with_payload(wrong_size()),
    "NaN in the payload": with_payload(not_finite()),
    "NaN energy": spoiled("energy", float("nan")),
    "text for a number": spoiled("examples", "many"),
    "no update": lambda asked, answered: RecordDict({"adagq.node": ConfigRecord({"version": 1})}),
    "another round": spoiled("round", 17),
    "foreign arrays": lambda asked, answered: RecordDict(
        {**answered, "adagq.update.arrays": ArrayRecord({"payload": Array(np.ones(3, np.float32))})}
        if "adagq.update" in answered
        else dict(answered)
    ),
}


@pytest.mark.parametrize("what", SPOILERS)
def test_what_cannot_be_used_is_refused_and_named(what: str, grid: LoopbackGrid) -> None:
    def from_the_second_task_on(asked: RecordDict, answered: RecordDict) -> RecordDict:
        begun = "adagq.task" in asked and asked["adagq.task"]["round"] > 1
        return SPOILERS[what](asked, answered) if begun else answered

    grid.spoil[1002] = from_the_second_task_on
    first, second, third = run(grid, "fedavg", 3)
    assert not first.incidents
    for closed in (second, third):
        assert [line["client"] for line in closed.ledger] == [0, 1, 3]
        assert {(one["client"], one["kind"]) for one in closed.incidents} == {(2, "refused")}
        assert closed.incidents[0]["reason"]
    assert np.isfinite(third.row["norm"])


def test_an_error_of_a_node_costs_its_update_only(grid: LoopbackGrid) -> None:
    grid.spoil[1001] = lambda asked, answered: Error(2, "it broke") if "adagq.task" in asked else answered
    (closed,) = run(grid, "qsgd", 1)
    assert [line["client"] for line in closed.ledger] == [0, 2, 3]
    assert [(one["client"], one["kind"]) for one in closed.incidents] == [(1, "lost")]
    assert "it broke" in closed.incidents[0]["reason"]


@pytest.mark.parametrize(("code", "times"), [(3, 1), (4, 2), (5, 3), (8, 1)])
def test_a_reply_that_is_lost_on_its_way_is_asked_for_again(code: int, times: int, grid: LoopbackGrid) -> None:
    lost: list[RecordDict] = []

    def at_first(asked: RecordDict, answered: RecordDict) -> RecordDict | Error:
        if "adagq.task" not in asked or len(lost) == times:
            return answered
        lost.append(asked)
        return Error(code, "broken off")

    grid.spoil[1001] = at_first
    (closed,) = run(grid, "qsgd", 1)
    assert len(closed.ledger) == 4
    assert not closed.incidents
    again = [content for node, content in grid.asked if node == 1001 and "adagq.task" in content][1:]
    assert again == [lost[0]] * times


def test_a_reply_that_is_lost_every_time_costs_its_update_only(grid: LoopbackGrid) -> None:
    grid.spoil[1001] = lambda asked, answered: Error(4, "broken off") if "adagq.task" in asked else answered
    (closed,) = run(grid, "qsgd", 1)
    assert [line["client"] for line in closed.ledger] == [0, 2, 3]
    assert [(one["client"], one["kind"]) for one in closed.incidents] == [(1, "lost")]


def test_a_node_that_left_is_not_asked_again(grid: LoopbackGrid) -> None:
    def leave(asked: RecordDict, answered: RecordDict) -> RecordDict | Error:
        if "adagq.task" not in asked:
            return answered
        del grid.nodes[1001]
        return Error(5, "gone")

    grid.spoil[1001] = leave
    (closed,) = run(grid, "qsgd", 1)
    assert [(one["client"], one["kind"]) for one in closed.incidents] == [(1, "lost")]


@pytest.mark.parametrize("exchanges", [1, 2])
def test_nobody_waits_longer_than_the_deadline(exchanges: int, grid: LoopbackGrid) -> None:
    grid.spoil[1003] = late(6.0)
    first, second = run(grid, "qsgd", 2, deadline_seconds=2.0, exchanges=exchanges)
    for closed in (first, second):
        assert closed.row["round_seconds"] < 3.0
        assert [line["client"] for line in closed.ledger] == [0, 1, 2]
        assert (3, "late") in {(one["client"], one["kind"]) for one in closed.incidents}


def test_a_node_that_joins_late_gets_the_whole_model(grid: LoopbackGrid) -> None:
    last = grid.nodes.popitem()
    nodes = nodes_of(grid)
    rounds = synchronous(method_of("qsgd"), nodes, schedule_of())
    assert next(rounds).row["clients"] == 3
    grid.nodes[last[0]] = last[1]
    later = [next(rounds) for _ in range(3)]
    joined = next(one for one in later if one.row["clients"] == 4)
    (line,) = (line for line in joined.ledger if line["client"] == 3)
    assert line["download_bytes"] > 4 * grid.population.layout.elements
    assert not joined.incidents


def test_a_node_that_lost_its_disk_gets_the_whole_model_in_the_same_round(grid: LoopbackGrid) -> None:
    nodes = nodes_of(grid)
    rounds = synchronous(method_of("qsgd"), nodes, schedule_of())
    next(rounds)
    next(iter((grid.folder / "partition-1").glob("*/model.npz"))).unlink()
    closed = next(rounds)
    assert closed.row["clients"] == 4
    assert not closed.incidents
    sizes = {line["client"]: line["download_bytes"] for line in closed.ledger}
    assert sizes[1] > sizes[0]


def test_a_restarted_node_keeps_its_client_number(grid: LoopbackGrid) -> None:
    nodes = nodes_of(grid)
    rounds = synchronous(method_of("qsgd"), nodes, schedule_of())
    next(rounds)
    del grid.nodes[1002]
    assert next(rounds).row["clients"] == 3
    grid.nodes[4711] = 2
    later = [next(rounds) for _ in range(3)]
    assert [line["client"] for line in later[-1].ledger] == [0, 1, 2, 3]


def test_a_node_with_another_model_is_left_out(grid: LoopbackGrid) -> None:
    other = replace(ToySpec(), layout=type(grid.population.layout).of_sizes([3])).build()
    plain = grid.population

    class Mixed:
        layout, clients, initial, evaluate = plain.layout, plain.clients, plain.initial, plain.evaluate

        def learner(self, client: int):
            return (other if client == 0 else plain).learner(client)

    grid.population = Mixed()
    (closed,) = run(grid, "qsgd", 1)
    assert [line["client"] for line in closed.ledger] == [1, 2, 3]
    assert "3 parameters" in closed.incidents[0]["reason"]


def test_rates_in_the_nodes_config_end_all_doubt(grid: LoopbackGrid) -> None:
    grid.config[1000] = {"uplink-mbps": 0.05}
    grid.config[1001] = {"uplink-mbps": 1e-6}
    (closed,) = run(grid, "fedavg", 1)
    named, absurd = closed.ledger[:2]
    assert named["upload_seconds"] == pytest.approx(named["upload_bytes"] / 6250)
    assert absurd["upload_seconds"] <= closed.row["round_seconds"]  # nothing takes longer than what it is part of


def test_a_node_says_what_parts_of_an_epoch_its_learner_can_train() -> None:
    learner = ToySpec(clients=1).build().learner(0)
    assert least_epochs(_Timed(learner)) == 1.0
    learner.least_epochs = 0.25
    assert least_epochs(_Timed(learner)) == 0.25
