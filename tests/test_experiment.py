"""A run directory: what is in it, and that nothing is ever overwritten."""

import json
from pathlib import Path

import pytest

from adagq.config import Config, Training, load_config
from adagq.errors import CheckpointError, DataError
from adagq.experiment import compared, run, until_target
from adagq.rounds import Closed

SETTINGS = ["training.max_rounds=2", "training.target=0.99", "task.clients=3"]


def config(*settings: str) -> Config:
    return load_config(None, [*SETTINGS, *settings])


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_method_and_seed_is_there(tmp_path: Path) -> None:
    small = config("seeds=2", 'methods=["fedavg"]')
    out = tmp_path / "new" / "run"
    steps = list(run(small, compared(small), out))
    rows, ledger = lines(out / "rows.jsonl"), lines(out / "ledger.jsonl")
    assert [row["method"] for row in rows] == ["fedavg"] * 2 + ["ideal"] * 2 + ["fedavg"] * 2 + ["ideal"] * 2
    assert [row["seed"] for row in rows] == [0] * 4 + [1] * 4
    assert [step.row for step in steps] == rows
    assert len(ledger) == 3 * len(rows)
    assert load_config(out / "config.toml") == small
    assert rows[0]["loss"] != rows[4]["loss"]


def test_same_settings_same_bytes_on_any_number_of_workers(tmp_path: Path) -> None:
    small = config('methods=["adagq", "adagq-fit"]')
    for workers in (1, 2):
        list(run(small, compared(small), tmp_path / str(workers), workers))
    for name in ("rows.jsonl", "ledger.jsonl", "config.toml"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("mine", "utf-8")
    with pytest.raises(CheckpointError, match="there already"):
        next(run(config(), compared(config()), tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
    assert (tmp_path / "rows.jsonl").read_text("utf-8") == "mine"


def test_a_run_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        next(run(config("task.clients=5000"), compared(config()), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("extra", "maximum", "expected"),
    [(0, 10, 4), (3, 10, 7), (9, 10, 13), (0, 2, 2)],
)
def test_rounds_end_at_the_target(extra: int, maximum: int, expected: int) -> None:
    rounds = (Closed({"round": k, "accuracy": k / 10}, [], None) for k in range(1, 100))  # type: ignore[arg-type]
    training = Training(target=0.4, extra_rounds=extra, max_rounds=maximum)
    assert len(list(until_target(training, rounds))) == expected
