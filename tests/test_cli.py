"""The command as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from adagq import cli

SMALL = ["--set", "training.max_rounds=2", "--set", "task.clients=3", "--workers", "1"]


def adagq(*arguments: str) -> int:
    """Run the command in this process; return its exit code."""
    try:
        sys.argv = ["adagq", *arguments]
        cli.main()
    except SystemExit as done:
        return int(done.code or 0)
    return 0


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [])


def test_compare_makes_a_run_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert adagq("compare", "--methods", "fedavg, qsgd", "--seeds", "2", "--tensorboard", *SMALL) == 0
    out = Path("runs/compare-1")
    for name in ("config.toml", "rows.jsonl", "ledger.jsonl", "summary.json", "report.html", "tensorboard"):
        assert (out / name).exists()
    methods = json.loads((out / "summary.json").read_text("utf-8"))["methods"]
    assert set(methods) == {"fedavg", "qsgd", "ideal"}
    shown = capsys.readouterr()
    assert "fedavg" in shown.out
    assert "report.html" in shown.out
    assert "payload_scale" in shown.out
    (out / "report.html").unlink()
    assert adagq("report", str(out)) == 0
    assert (out / "report.html").exists()


def test_train_runs_one_method_and_takes_the_next_free_directory() -> None:
    Path("runs/train-1").mkdir(parents=True)
    assert adagq("train", "--method", "topk", *SMALL) == 0
    rows = Path("runs/train-2/rows.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(row)["method"] for row in rows} == {"topk"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--set", "trainig.target=1"], "did you mean 'training'"),
        (["compare", "--methods", "nosuch"], "unknown method 'nosuch'"),
        (["compare", "nowhere.toml"], "nowhere.toml"),
        (["compare", "--set", "task.data=cifar10", "--set", "task.data_folder=nowhere", *SMALL], "nowhere"),
        (["compare", "--set", "fleet.uplink_mbps=0"], "fleet.uplink_mbps = 0"),
        (["compare", "--workers", "1", "--set", "task.clients=5000"], "5000"),
        (["train", "--out", ".", *SMALL], "there already"),
        (["train", "--out", ".", "--resume", *SMALL], "cannot be continued"),
        (["report", "."], "rows.jsonl"),
        (["plan", "--params", "many"], "params = 'many'"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("something").write_text("here", "utf-8")
    assert adagq(*arguments) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("adagq: ")
    assert message in errors[0]
    assert [path.name for path in Path().iterdir()] == ["something"]


def test_plan_and_its_map(capsys: pytest.CaptureFixture[str]) -> None:
    assert adagq("plan", "--params", "11.2M", "--uplink", "5,20", "--heatmap", "map.svg") == 0
    assert "adagq-fit" in capsys.readouterr().out
    assert Path("map.svg").exists()


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert adagq("--version") == 0
    assert adagq("--help") == 0
    assert "compare" in capsys.readouterr().out


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    heavy = "torch, numba, matplotlib, numpy, pydantic"
    script = f"import sys, adagq.cli; print([m for m in '{heavy}'.split(', ') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
