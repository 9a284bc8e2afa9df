"""The command as a user meets it."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from adagq import cli
from adagq.experiments.config import KEYS, load_config, read_toml, resolve
from adagq.experiments.settings_help import settings_under
from adagq.methods.table import METHODS
from adagq.paper.reproduce import EXPERIMENTS, settings_names

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
        (["compare", "fashon"], "did you mean 'fashion'"),
        (["compare", "--resume", *SMALL], "--out"),
        (["compare", "--resume", "--out", "runs/compere-1", *SMALL], "runs/compere-1: holds no run"),
        (["config", "trainig"], "did you mean 'training'"),
        (["init", "something"], "there already"),
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


def test_plan_and_its_map(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert adagq("plan", "--params", "11.2M", "--uplink", "5,20", "--heatmap", "map.svg") == 0
    shown = capsys.readouterr().out
    assert "adagq-fit" in shown
    assert "bring as much as 4.6 rounds" in " ".join(shown.split())
    assert_legible(shown)
    assert Path("map.svg").exists()
    assert adagq("plan", "--params", "11.2M", "--epoch-efficiency", "0.67") == 0
    assert "bring as much as 3.4 rounds" in " ".join(capsys.readouterr().out.split())


def assert_legible(shown: str) -> None:
    assert not re.search(r"\w…", shown)  # a word cut short
    assert max(map(len, shown.splitlines())) <= 80


def test_methods_and_settings_are_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert adagq("methods") == 0
    shown = capsys.readouterr().out
    assert_legible(shown)
    assert all(name in shown for name in METHODS)
    assert adagq("config") == 0
    shown = capsys.readouterr().out
    assert_legible(shown)
    assert all(key in shown for key in KEYS if key not in ("training", "task", "fleet"))
    assert adagq("config", "training.dead") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "training.deadline_factor 1.5 times what recent rounds needed (number)" in shown
    assert "of a round; not set: from recent ones (number, s)" in shown
    assert "training.target" not in shown


def test_every_settings_key_has_a_meaning() -> None:
    assert [setting.key for setting in settings_under() if not setting.meaning] == []


def test_the_meaning_of_a_name_lists_the_names_that_there_are() -> None:
    from adagq.data import DATASETS
    from adagq.learners.models import MODELS

    meanings = {setting.key: re.split(r"[^\w-]+", setting.meaning) for setting in settings_under("task.")}
    assert set(DATASETS) <= set(meanings["task.data"])
    assert set(MODELS) <= set(meanings["task.model"])


def test_init_writes_a_file_that_changes_nothing_until_it_is_edited(capsys: pytest.CaptureFixture[str]) -> None:
    assert adagq("init") == 0
    assert "adagq.toml" in capsys.readouterr().out
    file = Path("adagq.toml")
    Path("empty.toml").write_text("")
    assert load_config(file) == load_config(None) == load_config(Path("empty.toml"))
    text = file.read_text("utf-8")
    active = re.sub(r"^# (\w+ = (?!  # not set))", r"\1", text, flags=re.MULTILINE)
    file.write_text(active, "utf-8")
    assert tomllib.loads(active)["training"]["target"] == 0.9
    assert load_config(file) == load_config(None)
    assert adagq("init", "adagq.toml") == 2


def test_one_of_adagqs_own_settings_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--set", "task.data=digits", "--set", "task.model=mlp", *SMALL)
    assert adagq("compare", "fig2", *arguments, "--methods", "qsgd", "--out", "run") == 0
    assert tomllib.loads(Path("run/config.toml").read_text("utf-8"))["variants"]
    for name in settings_names(EXPERIMENTS):  # complete as they are: the defaults add nothing
        path = EXPERIMENTS / f"{name}.toml"
        assert load_config(path) == resolve(read_toml(path), path.parent), name


def test_divergence_is_said_with_an_exit_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    hot = ["--set", "training.learning_rate=1e4", *SMALL]
    assert adagq("train", "--method", "qsgd", "--out", "run", *hot) == 3
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("adagq: diverged: qsgd (seed 0) in round 1: learning rate too high?")
    assert not Path("run").exists()


def test_resume_with_other_settings_names_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert adagq("train", "--method", "qsgd", "--out", "run", *SMALL) == 0
    capsys.readouterr()
    changed = [*SMALL, "--set", "training.learning_rate=0.2"]
    assert adagq("train", "--method", "qsgd", "--out", "run", "--resume", *changed) == 2
    assert "training.learning_rate is 0.1 there and 0.2 here" in capsys.readouterr().err


def test_what_an_option_needs_is_found_before_training(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    assert adagq("train", "--tensorboard", "--out", "run", *SMALL) == 2
    assert "adagq[tensorboard]" in capsys.readouterr().err
    assert not Path("run").exists()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert adagq("train", "--out", "run", *SMALL) == 0  # the page is not worth a run: its table is there
    shown = capsys.readouterr()
    assert "adagq-auto" in shown.out
    assert 'pip install "adagq[report]", then adagq report run' in shown.err
    monkeypatch.setitem(sys.modules, "flwr", None)
    assert adagq("deploy", "local", "--out", "run") == 2
    assert 'pip install "adagq[flower]"' in capsys.readouterr().err


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert adagq("--version") == 0
    assert adagq("--help") == 0
    assert "compare" in capsys.readouterr().out
    assert adagq("advise", "--help") == 0  # brackets in a help text are markup to rich, and vanish
    assert "A fleet file" in capsys.readouterr().out


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    heavy = "torch, numba, matplotlib, numpy, pydantic"
    script = f"import sys, adagq.cli; print([m for m in '{heavy}'.split(', ') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
