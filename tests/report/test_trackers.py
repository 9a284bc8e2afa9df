"""Callbacks for experiment trackers: a run per method and seed, a metric per number, steps are rounds."""

from pathlib import Path
from typing import Any

import pytest

from adagq.core.errors import ConfigError
from adagq.report.trackers import Logger, mlflow_logger, wandb_logger
from made_up import rows_and_ledger

ROWS = rows_and_ledger(("fedavg", "qsgd"), seeds=2, rounds=3, clients=4)[0]


def test_a_run_of_the_tracker_per_method_and_seed() -> None:
    events: list[Any] = []

    def start(method: str, seed: int) -> Any:
        events.append(("start", method, seed))
        return lambda metrics, round: events.append((round, metrics["accuracy"])), lambda: events.append("end")

    log = Logger(start)
    for row in ROWS:
        log(row)
    log.close()
    log.close()
    assert [event for event in events if event[0] == "start"] == [
        ("start", method, seed) for method in ("fedavg", "qsgd") for seed in (0, 1)
    ]
    assert events.count("end") == 4
    assert events[1:5] == [*((row["round"], row["accuracy"]) for row in ROWS[:3]), "end"]


def test_mlflow_file_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = (tmp_path / "mlruns").as_uri()
    log = mlflow_logger("links", store, office="north")
    for row in ROWS:
        log(row)
    log.close()
    client = MlflowClient(store)
    runs = client.search_runs([client.get_experiment_by_name("links").experiment_id])
    assert {run.info.run_name for run in runs} == {f"{m}, seed {s}" for m in ("fedavg", "qsgd") for s in (0, 1)}
    assert {run.info.status for run in runs} == {"FINISHED"}
    first = next(run for run in runs if run.info.run_name == "qsgd, seed 1")
    assert first.data.tags["office"] == "north"
    own = [row for row in ROWS if (row["method"], row["seed"]) == ("qsgd", 1)]
    history = client.get_metric_history(first.info.run_id, "accuracy")
    assert [(one.step, one.value) for one in history] == [(row["round"], row["accuracy"]) for row in own]


def test_wandb_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    log = wandb_logger("links", mode="offline", dir=str(tmp_path))
    for row in ROWS:
        log(row)
    log.close()
    assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == 4


@pytest.mark.parametrize(("make", "extra"), [(mlflow_logger, "mlflow"), (wandb_logger, "wandb")])
def test_a_tracker_that_is_not_installed(make: Any, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, extra, None)
    with pytest.raises(ConfigError, match=rf"adagq\[{extra}\]"):
        make()
