"""A run directory: what is in it, that nothing is ever overwritten, and that a killed run goes on."""

import json
import logging
from itertools import islice
from pathlib import Path

import pytest

from adagq.core.errors import CheckpointError, ConfigError, DataError
from adagq.experiments.config import Config, Training, load_config
from adagq.experiments.runner import compared, goal_of, run, simulate
from adagq.methods.table import method_of
from adagq.simulation.fleet import paper
from toy import ToySpec

SETTINGS = ["training.max_rounds=3", "training.target=0.99", "task.clients=3"]
FILES = ("rows.jsonl", "ledger.jsonl", "config.toml")


def config(*settings: str) -> Config:
    return load_config(None, [*SETTINGS, *settings])


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_method_and_seed_is_there(tmp_path: Path) -> None:
    small = compared(config("seeds=2", 'methods=["fedavg"]'))
    out = tmp_path / "new" / "run"
    steps = list(run(small, out))
    rows, ledger = lines(out / "rows.jsonl"), lines(out / "ledger.jsonl")
    assert [row["method"] for row in rows] == 2 * (["fedavg"] * 3 + ["ideal"] * 3)
    assert [row["seed"] for row in rows] == [0] * 6 + [1] * 6
    assert [step.row for step in steps] == rows
    assert len(ledger) == 3 * len(rows)
    assert load_config(out / "config.toml") == small
    assert rows[0]["loss"] != rows[6]["loss"]


def test_same_settings_same_bytes_on_any_number_of_workers(tmp_path: Path) -> None:
    small = config('methods=["adagq", "adagq-fit"]')
    for workers in (1, 2):
        list(run(small, tmp_path / str(workers), workers))
    for name in FILES:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("mine", "utf-8")
    for resume in (False, True):
        with pytest.raises(CheckpointError):
            next(run(config(), tmp_path, resume=resume))
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
    assert (tmp_path / "rows.jsonl").read_text("utf-8") == "mine"


def test_a_run_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        next(run(config("task.clients=5000"), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("rounds", [1, 4, 5, 9, 12])
def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path, rounds: int) -> None:
    small = config(
        'methods=["adagq", "adagq-fit", "qsgd+residual"]', "training.max_rounds=4", "training.participants=2"
    )
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    list(run(small, whole))
    steps = run(small, cut)
    list(islice(steps, rounds))
    steps.close()
    with (cut / "rows.jsonl").open("a") as file:
        file.write('{"method": "torn')  # written, but not closed, when the run was killed
    rest = list(run(small, cut, resume=True))
    assert len(rest) == 12 - rounds
    for name in FILES:
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
    assert list(run(small, cut, resume=True)) == []


def test_a_finished_comparison_takes_more_methods_and_seeds(tmp_path: Path) -> None:
    first, more = config('methods=["fedavg", "qsgd"]'), config('methods=["fedavg", "qsgd", "adagq"]', "seeds=2")
    list(run(first, tmp_path / "grown"))
    steps = list(run(more, tmp_path / "grown", resume=True))
    assert {(step.method.name, step.seed) for step in steps} == {("adagq", 0), *((name, 1) for name in more.methods)}
    list(run(more, tmp_path / "whole"))
    for name in FILES:
        grown, whole = ((tmp_path / folder / name).read_text("utf-8") for folder in ("grown", "whole"))
        assert sorted(grown.splitlines()) == sorted(whole.splitlines()), name


def test_a_run_under_way_begins_anew_when_its_directory_grows(tmp_path: Path) -> None:
    next(run(config('methods=["fedavg"]'), tmp_path))
    more = config('methods=["fedavg", "qsgd"]')
    steps = list(run(more, tmp_path, resume=True))
    assert [step.row["round"] for step in steps] == [*range(1, 1 + more.training.max_rounds)] * 2
    with pytest.raises(CheckpointError, match="not a run with these settings"):
        next(run(config('methods=["fedavg"]'), tmp_path, resume=True))  # fewer would throw rows away
    with pytest.raises(CheckpointError, match="not a run with these settings"):
        next(run(config('methods=["fedavg", "qsgd", "adagq"]', "fleet.downlink_mbps=1"), tmp_path, resume=True))


def test_foreign_and_torn_checkpoints_are_refused(tmp_path: Path) -> None:
    small = config('methods=["fedavg"]')
    next(run(small, tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CheckpointError, match="not a run with these settings"):
        next(run(config('methods=["qsgd"]'), tmp_path, resume=True))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    saved = tmp_path / "checkpoint.npz"
    for torn in (before[saved.name][:-100], b"", bytes(1000), before[saved.name].replace(b"fedavg", b"fedavh")):
        saved.write_bytes(torn)
        with pytest.raises(CheckpointError, match="torn or not a checkpoint"):
            next(run(small, tmp_path, resume=True))
    saved.write_bytes(before[saved.name])
    (tmp_path / "rows.jsonl").write_text("", "utf-8")
    with pytest.raises(CheckpointError, match="shorter than its checkpoint"):
        next(run(small, tmp_path, resume=True))


def test_runs_that_diverge_are_named_and_do_not_stop_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steep = config('methods=["fedavg", "adagq"]', "seeds=2", "training.learning_rate=1e12")
    with caplog.at_level(logging.WARNING, "adagq"):
        assert list(run(steep, tmp_path / "run")) == []
    for method, seed in (("fedavg", 0), ("adagq", 0), ("fedavg", 1), ("adagq", 1)):
        assert f"{method}, seed {seed}, diverged in round 1: learning rate too high?" in caplog.text
    assert not (tmp_path / "run").exists()  # no round was closed


@pytest.mark.parametrize(("extra", "maximum", "expected"), [(0, 10, 4), (3, 10, 7), (9, 10, 13), (0, 2, 2)])
def test_rounds_end_at_the_target(extra: int, maximum: int, expected: int) -> None:
    training = Training(target=0.4, extra_rounds=extra, max_rounds=maximum)
    rows = [{"round": k, "accuracy": k / 10} for k in range(1, 100)]
    goal = goal_of(training, method_of("adagq-fit"), clients=4)
    assert next(n for n in range(100) if goal.met(rows[:n])) == expected
    assert all(goal.met(goal.decisive(rows[:n])) == goal.met(rows[:n]) for n in range(1, 20))


@pytest.mark.parametrize("method", ["adagq", "adagq-fit", "fedavg+residual", method_of("topk")])
def test_a_population_of_ones_own_is_simulated_to_its_end(method) -> None:
    population, training = ToySpec().build(), Training(learning_rate=0.2, target=0.7, max_rounds=30)
    rows = list(simulate(population, method, training=training, seed=5))
    assert [row["round"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[-1]["accuracy"] >= 0.7 or len(rows) == 30
    assert all(row["accuracy"] < 0.7 for row in rows[:-1])
    assert list(simulate(population, method, training=training, seed=5)) == rows
    assert next(simulate(population, method, training=training, seed=6)) != rows[0]


def test_simulate_is_what_a_run_does(tmp_path: Path) -> None:
    settings = config('methods=["adagq-fit"]')
    rows = [step.row for step in run(settings, tmp_path / "run")]
    task = settings.task.build()
    again = simulate(task, "adagq-fit", settings.fleet, settings.training, settings.seed, settings.payload_scale)
    assert list(again) == rows


def test_a_fleet_of_another_size_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"fleet.clients = 3: must be 4"):
        next(simulate(ToySpec(clients=4).build(), fleet=paper(clients=3)))
