"""The strategy as a ServerApp uses it, over nodes in this process."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from adagq.core.errors import CheckpointError, ConfigError
from adagq.experiments.verify import verify
from adagq.flower import AdaGQ, Compressed, conventions
from loopback import LoopbackGrid
from toy import LAYOUT, ToySpec

SAME = ("round", "norm", "upload_bytes", "levels", "nsr", "accuracy", "clients")


@pytest.fixture
def grid(tmp_path: Path) -> LoopbackGrid:
    return LoopbackGrid(ToySpec().build(), tmp_path / "nodes")


def start(strategy: Compressed, grid: LoopbackGrid, rounds: int, config: dict | None = None):
    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        state = {name: array.numpy() for name, array in arrays.items()}
        accuracy, loss = grid.population.evaluate(*LAYOUT.pack(state))
        return MetricRecord({"test-accuracy": accuracy, "test-loss": loss})

    first = LAYOUT.unpack(*grid.population.initial(0))
    return strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({name: Array(array) for name, array in first.items()}),
        num_rounds=rounds,
        train_config=ConfigRecord(config or {"lr": 0.2}),
        evaluate_fn=evaluate,
    )


def rows(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "rows.jsonl").read_text("utf-8").splitlines()]


def essence(out: Path) -> list[dict]:
    return [{key: row[key] for key in SAME} for row in rows(out)]


def test_the_result_is_flowers_own(grid: LoopbackGrid) -> None:
    result = start(AdaGQ(deadline_seconds=30.0), grid, 3)
    assert list(result.evaluate_metrics_serverapp) == [0, 1, 2, 3]  # 0: the initial arrays, as Flower does it
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
    assert verify(resumed).rounds == 5


def test_measured_exchanges_are_checked_like_rows(grid: LoopbackGrid, tmp_path: Path) -> None:
    out = tmp_path / "run"
    start(Compressed("qsgd", out=out, deadline_seconds=30.0), grid, 2)
    assert verify(out).unclosed_bytes == 0
    path, whole = out / "exchanges.jsonl", (out / "exchanges.jsonl").read_bytes()
    with path.open("ab") as file:
        file.write(whole.splitlines(keepends=True)[-1])  # what a kill in the middle of the third round leaves
    start(
        Compressed("qsgd", out=out, resume=True, config=(out / "config.toml").read_text(), deadline_seconds=30.0),
        grid,
        3,
    )
    assert path.read_bytes()[: len(whole)] == whole
    assert [json.loads(line)["round"] for line in path.read_bytes()[len(whole) :].splitlines()] == [3] * 4
    verify(out)
    path.write_bytes(path.read_bytes().replace(b'"round":2', b'"round":7', 1))
    with pytest.raises(CheckpointError, match=r"exchanges\.jsonl: changed, first in round 2"):
        verify(out)
    with pytest.raises(CheckpointError, match=r"exchanges\.jsonl: damaged"):
        start(Compressed("qsgd", out=out, resume=True, config=(out / "config.toml").read_text()), grid, 4)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"exchanges\.jsonl: missing"):
        verify(out)


def test_finished_runs_are_left_alone(grid: LoopbackGrid, tmp_path: Path) -> None:
    out = tmp_path / "run"
    start(Compressed("qsgd", out=out, deadline_seconds=30.0), grid, 2)
    before = (out / "rows.jsonl").read_bytes()
    result = start(Compressed("qsgd", out=out, resume=True, deadline_seconds=30.0), grid, 2)
    assert (out / "rows.jsonl").read_bytes() == before
    assert np.isfinite(result.arrays["weight"].numpy()).all()


def test_what_nodes_do_is_written_down_while_the_run_goes_on(grid: LoopbackGrid, tmp_path: Path) -> None:
    out, seen = tmp_path / "run", []

    def look(asked: RecordDict, answered: RecordDict) -> RecordDict:
        if "adagq.task" in asked and (out / "status.json").exists():
            seen.append(json.loads((out / "status.json").read_text("utf-8")))
        return answered

    grid.spoil[1003] = look
    start(Compressed("qsgd", out=out, min_available_nodes=4, deadline_seconds=30.0), grid, 2)
    assert [status["round"] for status in seen] == [1, 2]
    assert seen[-1]["nodes"]["3"]["state"] == "computing"
    assert seen[-1]["nodes"]["3"]["name"] == "partition-3"
    assert not (out / "status.json").exists()


def test_flowers_conventions_are_kept(grid: LoopbackGrid, tmp_path: Path) -> None:
    strategy = Compressed(
        "qsgd", fraction_train=0.5, min_available_nodes=4, out=tmp_path / "run", deadline_seconds=30.0
    )
    start(strategy, grid, 3, {"lr": 0.2, "local-epochs": 3})
    assert [row["clients"] for row in rows(tmp_path / "run")] == [2, 2, 2]
    tasks = [content["adagq.task"] for _, content in grid.asked if "adagq.task" in content]
    assert {(task["epochs"], task["learning-rate"]) for task in tasks} == {(3, 0.2)}  # not decayed unasked


def test_what_has_no_effect_is_named_in_one_warning(grid: LoopbackGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(conventions, "log", lambda level, text, *words: said.append(text % words))
    strategy = Compressed("qsgd", weighted_by_key="n", arrayrecord_key="arrays", deadline_seconds=30.0)
    start(strategy, grid, 1, {"lr": 0.2, "momentum": 0.9})
    (line,) = said
    assert "Without effect here: weighted_by_key, train_config['momentum']." in line
    said.clear()
    start(Compressed("qsgd", fraction_evaluate=0.5, deadline_seconds=30.0), grid, 1)
    assert said == []
    start(
        Compressed("qsgd", evaluate_metrics_aggr_fn=lambda records, key: MetricRecord(), deadline_seconds=30.0), grid, 1
    )
    (line,) = said
    assert line.startswith("evaluate_metrics_aggr_fn: no node evaluates; give its learner `evaluate`")


def test_without_flower_one_line_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['flwr'] = None\nfrom adagq.cli import main\nsys.argv[1:] = ['deploy', 'local']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.strip() == 'adagq: flwr is not installed: pip install "adagq[flower]"'
    script = "import sys; sys.modules['flwr'] = None\nfrom adagq.flower import AdaGQ"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip().endswith('flwr is not installed: pip install "adagq[flower]"')


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Compressed("nosuch"), "did you mean"),
        (lambda: Compressed(deadline=3), "did you mean 'deadline"),
        (lambda: Compressed(aggregate="medain"), "did you mean 'median'"),
        (lambda: Compressed(exchanges=3), "1 or 2"),
        (lambda: Compressed(resume=True), "needs `out`"),
        (lambda: Compressed(min_available_nodes=0), "at least 1"),
        (lambda: Compressed(fraction_train=0), "above 0"),
        (lambda: Compressed(fraction_evaluate=2), "at most 1"),
        (lambda: AdaGQ("qsgd"), "use Compressed"),
    ],
)
def test_mistakes_are_named(make, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
