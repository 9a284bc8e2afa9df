"""The strategy as a ServerApp uses it, over nodes in this process."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord

from adagq.errors import ConfigError
from adagq.flower import AdaGQ, Compressed
from backends.flower.loopback import LoopbackGrid
from toy import LAYOUT, ToySpec

SAME = ("round", "norm", "upload_bytes", "levels", "nsr", "accuracy", "clients")


@pytest.fixture
def grid(tmp_path: Path) -> LoopbackGrid:
    return LoopbackGrid(ToySpec().build(), tmp_path / "nodes")


def start(strategy: Compressed, grid: LoopbackGrid, rounds: int):
    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        state = {name: array.numpy() for name, array in arrays.items()}
        accuracy, loss = grid.population.evaluate(*LAYOUT.pack(state))
        return MetricRecord({"test-accuracy": accuracy, "test-loss": loss})

    first = LAYOUT.unpack(*grid.population.initial(0))
    return strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({name: Array(array) for name, array in first.items()}),
        num_rounds=rounds,
        train_config=ConfigRecord({"lr": 0.2}),
        evaluate_fn=evaluate,
    )


def rows(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "rows.jsonl").read_text("utf-8").splitlines()]


def essence(out: Path) -> list[dict]:
    return [{key: row[key] for key in SAME} for row in rows(out)]


def test_the_result_is_flowers_own(grid: LoopbackGrid) -> None:
    result = start(AdaGQ(deadline_seconds=30.0), grid, 3)
    assert list(result.evaluate_metrics_serverapp) == [1, 2, 3]
    assert list(result.train_metrics_clientapp) == [1, 2, 3]
    assert result.train_metrics_clientapp[3]["upload-bytes"] > 0
    assert {name: array.shape for name, array in result.arrays.items()} == {
        tensor.name: tensor.shape for tensor in LAYOUT.tensors
    }
    accuracies = [record["test-accuracy"] for record in result.evaluate_metrics_serverapp.values()]
    assert accuracies[-1] > accuracies[0]


def test_a_run_directory_says_that_times_were_measured(grid: LoopbackGrid, tmp_path: Path) -> None:
    start(Compressed("adagq", out=tmp_path / "run", deadline_seconds=30.0), grid, 2)
    assert {row["clock"] for row in rows(tmp_path / "run")} == {"measured"}
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"config.toml", "rows.jsonl", "ledger.jsonl", "incidents.jsonl", "exchanges.jsonl"} <= names


@pytest.mark.parametrize("name", ["qsgd+residual", "topk", "fedavg"])
def test_a_killed_server_goes_on_where_its_last_round_closed(name: str, tmp_path: Path) -> None:
    """Nodes are ahead of the server then: they have trained for a round that nobody closed."""
    options = {"deadline_seconds": 30.0}
    whole, killed, resumed = tmp_path / "whole", tmp_path / "killed", tmp_path / "resumed"
    start(Compressed(name, out=whole, **options), LoopbackGrid(ToySpec().build(), tmp_path / "a"), 5)

    def until(past: list) -> bool:
        if len(past) == 3:
            return True
        shutil.copytree(killed, resumed, dirs_exist_ok=True)  # what a kill during the next round leaves
        return False

    grid = LoopbackGrid(ToySpec().build(), tmp_path / "b")
    start(Compressed(name, out=killed, until=until, **options), grid, 5)
    restarted = LoopbackGrid(ToySpec().build(), tmp_path / "b", {2000 + client: client for client in range(4)})
    start(Compressed(name, out=resumed, resume=True, **options), restarted, 5)
    assert essence(resumed) == essence(whole)
    rounds = [json.loads(line)["round"] for line in (resumed / "exchanges.jsonl").read_text("utf-8").splitlines()]
    assert sorted(set(rounds)) == [1, 2, 3, 4, 5]


def test_finished_runs_are_left_alone(grid: LoopbackGrid, tmp_path: Path) -> None:
    out = tmp_path / "run"
    start(Compressed("qsgd", out=out, deadline_seconds=30.0), grid, 2)
    before = (out / "rows.jsonl").read_bytes()
    result = start(Compressed("qsgd", out=out, resume=True, deadline_seconds=30.0), grid, 2)
    assert (out / "rows.jsonl").read_bytes() == before
    assert np.isfinite(result.arrays["weight"].numpy()).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Compressed("nosuch"), "did you mean"),
        (lambda: Compressed(deadline=3), "did you mean 'deadline"),
        (lambda: Compressed(exchanges=3), "1 or 2"),
        (lambda: Compressed(resume=True), "needs `out`"),
        (lambda: Compressed(min_available_nodes=0), "at least 1"),
        (lambda: AdaGQ("qsgd"), "use Compressed"),
    ],
)
def test_mistakes_are_named(make, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
