"""Evaluation on nodes and metrics of their training, as Flower's own strategies have them."""

import json
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, MetricRecord, RecordDict

from adagq.flower import Compressed
from adagq.flower.evaluation import aggregated
from loopback import LoopbackGrid
from toy import LAYOUT, ToyLearner, ToyPopulation, ToySpec

WITHOUT_CLOCK = ("round", "norm", "upload_bytes", "download_bytes", "levels", "nsr", "clients", "train_loss")


class EvaluatingLearner(ToyLearner):
    """A toy that evaluates, measures more than its loss, and notes the settings it got."""

    takes_config = True
    client = 0

    @property
    def train_metrics(self) -> dict[str, float]:
        return {"steps": 7.0 + self.client}

    def configure(self, config: dict[str, Any]) -> None:
        self.seen.append((self.client, dict(config)))

    def evaluate(self) -> dict[str, float]:
        return {"eval_loss": self.loss(), "eval_acc": 0.25 * self.client, "num-examples": 10 + self.client}


class EvaluatingPopulation(ToyPopulation):
    def __init__(self, spec: ToySpec) -> None:
        super().__init__(spec)
        self.seen: list[tuple[int, dict[str, Any]]] = []

    def learner(self, client: int) -> EvaluatingLearner:
        plain = super().learner(client)
        made = EvaluatingLearner(plain.offset, plain.examples, plain.layout)
        made.client, made.seen = client, self.seen
        return made


@pytest.fixture
def grid(tmp_path: Path) -> LoopbackGrid:
    return LoopbackGrid(EvaluatingPopulation(ToySpec()), tmp_path / "nodes")


def start(grid: LoopbackGrid, rounds: int = 2, method: str = "qsgd", config: dict | None = None, **options: Any):
    strategy = Compressed(method, min_available_nodes=4, deadline_seconds=30.0, **options)
    first = LAYOUT.unpack(*grid.population.initial(0))
    return strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({name: Array(array) for name, array in first.items()}),
        num_rounds=rounds,
        timeout=20.0,
        train_config=ConfigRecord({"lr": 0.2, **(config or {})}),
        evaluate_config=ConfigRecord({"steps": 5}),
    )


def rows(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "rows.jsonl").read_text("utf-8").splitlines()]


def test_nodes_evaluate_every_rounds_model_and_their_metrics_are_weighted(grid: LoopbackGrid) -> None:
    result = start(grid)
    assert list(result.evaluate_metrics_clientapp) == [1, 2]
    weights = [10, 11, 12, 13]
    mean = sum(weight * 0.25 * client for client, weight in enumerate(weights)) / sum(weights)
    assert result.evaluate_metrics_clientapp[2]["eval_acc"] == pytest.approx(mean)
    assert "num-examples" not in result.evaluate_metrics_clientapp[2]
    # It is the round's own model that is evaluated: the loss of the arrays that the run returns.
    vector, buffers = LAYOUT.pack({name: array.numpy() for name, array in result.arrays.items()})
    losses = []
    for client in range(4):
        learner = grid.population.learner(client)
        learner.load(vector, buffers)
        losses.append(learner.loss())
    expected = sum(weight * loss for weight, loss in zip(weights, losses, strict=True)) / sum(weights)
    assert result.evaluate_metrics_clientapp[2]["eval_loss"] == pytest.approx(expected, rel=1e-5)


def test_training_metrics_reach_the_result_under_the_users_names(grid: LoopbackGrid) -> None:
    metrics = start(grid).train_metrics_clientapp[2]
    examples = [100, 101, 102, 103]
    steps = sum(n * (7 + client) for client, n in enumerate(examples)) / sum(examples)
    assert metrics["steps"] == pytest.approx(steps)
    assert 0 < metrics["train_loss"] < 1
    assert metrics["upload-bytes"] > 0


def test_probing_still_sees_the_step_that_led_to_the_model(grid: LoopbackGrid) -> None:
    """A replica that evaluation had moved on would lack it, and report the same loss before and after."""
    losses = []

    def look(asked: RecordDict, answered: RecordDict) -> RecordDict:
        if "loss-before" in answered.get("adagq.report", {}):
            losses.append((answered["adagq.report"]["loss-before"], answered["adagq.report"]["loss-after"]))
        return answered

    grid.spoil[1002] = look
    start(grid, 3, "adagq")
    assert len(losses) == 3  # the first round has no step yet
    assert all(before > after for before, after in losses[1:])


@pytest.mark.parametrize("method", ["qsgd", "topk"])
def test_evaluation_leaves_the_rows_as_they_are(method: str, tmp_path: Path) -> None:
    outs = []
    for fraction in (0.0, 1.0):
        grid = LoopbackGrid(EvaluatingPopulation(ToySpec()), tmp_path / f"nodes-{fraction}")
        outs.append(tmp_path / f"run-{fraction}")
        start(grid, 3, method, fraction_evaluate=fraction, out=outs[-1])
    one, two = ([{key: row[key] for key in WITHOUT_CLOCK} for row in rows(out)] for out in outs)
    assert one == two
    assert [row["accuracy"] for row in rows(outs[0])] == [None] * 3
    assert [row["accuracy"] is not None for row in rows(outs[1])] == [True] * 3  # the nodes', without evaluate_fn
    assert not any("evaluation_bytes" in row for row in rows(outs[0]))
    # What was sent for it is counted apart: the broadcast that the next round sends again.
    sent = [row["evaluation_bytes"] for row in rows(outs[1])]
    assert sent[:2] == [row["download_bytes"] for row in rows(outs[1])[1:]]


def test_settings_reach_learners_that_take_them(grid: LoopbackGrid) -> None:
    start(grid, 1, config={"momentum": 0.9, "local-epochs": 2})
    trained = [config for _, config in grid.population.seen if "momentum" in config]
    evaluated = [config for _, config in grid.population.seen if "steps" in config]
    assert trained == [{"momentum": 0.9, "server-round": 1}] * 4
    assert evaluated == [{"steps": 5, "server-round": 1}] * 4


def test_a_share_of_the_nodes_evaluates(grid: LoopbackGrid) -> None:
    start(grid, 3, fraction_evaluate=0.5, min_evaluate_nodes=1)
    asked = [node for node, content in grid.asked if "adagq.evaluate" in content]
    assert len(asked) == 6
    grid.asked.clear()
    start(grid, 1, fraction_evaluate=0.25, min_evaluate_nodes=3)
    assert len([node for node, content in grid.asked if "adagq.evaluate" in content]) == 3


def test_functions_that_aggregate_metrics_are_called(grid: LoopbackGrid) -> None:
    seen: dict[str, list] = {}

    def keep(name: str):
        def aggregate(records: list[RecordDict], weighted_by: str) -> MetricRecord:
            seen[name] = [dict(next(iter(record.metric_records.values()))) for record in records]
            return MetricRecord({f"{name}-of": len(records), "key-length": len(weighted_by)})

        return aggregate

    result = start(grid, 1, train_metrics_aggr_fn=keep("train"), evaluate_metrics_aggr_fn=keep("evaluate"))
    assert dict(result.evaluate_metrics_clientapp[1]) == {"evaluate-of": 4, "key-length": len("num-examples")}
    assert result.train_metrics_clientapp[1]["train-of"] == 4
    assert {record["num-examples"] for record in seen["train"]} == {100, 101, 102, 103}
    assert {record["num-examples"] for record in seen["evaluate"]} == {10, 11, 12, 13}


def test_a_node_that_fails_to_evaluate_is_left_out(grid: LoopbackGrid) -> None:
    def broken(asked: RecordDict, answered: RecordDict) -> RecordDict | Error:
        return Error(code=2, reason="NameError") if "adagq.evaluate" in asked else answered

    def odd(asked: RecordDict, answered: RecordDict) -> RecordDict:
        if "adagq.evaluate" in asked:
            answered["metrics"] = MetricRecord({"other": 1.0, "num-examples": 10**9})
        return answered

    grid.spoil[1000], grid.spoil[1001] = broken, odd
    metrics = start(grid, 1).evaluate_metrics_clientapp[1]
    assert set(metrics) == {"eval_loss", "eval_acc"}
    assert metrics["eval_acc"] == pytest.approx((12 * 0.5 + 13 * 0.75) / 25)


def test_a_node_that_lost_its_model_gets_the_whole_one_to_evaluate(grid: LoopbackGrid) -> None:
    import shutil

    def forget(asked: RecordDict, answered: RecordDict) -> RecordDict:
        if "adagq.task" in asked:
            shutil.rmtree(grid.folder / "partition-2", ignore_errors=True)
        return answered

    grid.spoil[1002] = forget
    result = start(grid, 2)
    assert list(result.evaluate_metrics_clientapp) == [1, 2]
    asked = [content for node, content in grid.asked if node == 1002 and "adagq.evaluate" in content]
    assert len(asked) == 4  # each round: the step, then the whole model
    whole = 4 * grid.population.layout.elements
    assert all(result.train_metrics_clientapp[number]["evaluation-bytes"] > whole for number in (1, 2))


def test_nothing_is_aggregated_from_nothing() -> None:
    assert aggregated([], None) is None
    assert aggregated([MetricRecord({"num-examples": 3})], None) is None
