"""Callbacks for experiment trackers: a run per method and seed, a metric per number, steps are rounds."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from adagq.cli import app
from adagq.core.errors import ConfigError
from adagq.report.trackers import Logger, mlflow_logger, tracker, wandb_logger
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


def test_what_a_tracker_needs_is_found_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    pytest.importorskip("wandb")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_URI"):
        mlflow_logger(tracking_uri="http-but-not-quite://nowhere")
    with pytest.raises(ConfigError, match="WANDB_MODE=offline"):
        wandb_logger(mode="online")
    with pytest.raises(ConfigError, match="must be mlflow or wandb"):
        tracker("mlfow")


def test_the_command_logs_what_the_rows_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    small = ("task.samples_per_client=40", "training.max_rounds=2", "fleet.clients=3")
    options = [word for setting in small for word in ("--set", setting)]
    words = ["compare", "--methods", "qsgd", "--workers", "1", "--track", "mlflow", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*words, *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    client = MlflowClient()
    runs = client.search_runs([client.get_experiment_by_name("adagq").experiment_id])
    assert {run.info.run_name for run in runs} == {"qsgd, seed 0", "ideal, seed 0"}
    rows = [json.loads(line) for line in (tmp_path / "run" / "rows.jsonl").read_text().splitlines()]
    for run in runs:
        own = [row["seconds"] for row in rows if row["method"] == run.data.params["method"]]
        assert [one.value for one in client.get_metric_history(run.info.run_id, "seconds")] == own


@pytest.mark.parametrize(("make", "extra"), [(mlflow_logger, "mlflow"), (wandb_logger, "wandb")])
def test_a_tracker_that_is_not_installed(make: Any, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, extra, None)
    with pytest.raises(ConfigError, match=rf"adagq\[{extra}\]"):
        make()
