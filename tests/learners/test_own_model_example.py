"""`examples/own_model.py` as its first lines say: run, compared by the command, deployed; and as short as promised."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adagq.cli.plan import plan
from adagq.core.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.py"
LINE = re.compile(r"(\S+): accuracy ([\d.]+) after (\d+) s, (\d+) bytes uploaded")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copy(EXAMPLE, tmp_path / "own_model.py"))


def command(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).parent / "adagq"
    return subprocess.run([program, *words], cwd=cwd, env=dict(os.environ), capture_output=True, text=True, timeout=600)


def rows_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "rows.jsonl").read_text("utf-8").splitlines()]


def test_the_script_runs_on_two_workers_and_learns(copy: Path) -> None:
    assert len(copy.read_text("utf-8").splitlines()) < 40
    printed = subprocess.run([sys.executable, copy], capture_output=True, text=True, check=True).stdout
    found = [LINE.fullmatch(line) for line in printed.splitlines()]
    assert all(found), printed
    assert [match[1] for match in found] == ["fedavg", "adagq-fit"]
    assert all(float(match[2]) >= 0.9 for match in found)  # the target, before max_rounds
    seconds, nbytes = ([int(match[group]) for match in found] for group in (3, 4))
    assert seconds[1] < seconds[0]
    assert nbytes[1] < nbytes[0]


def test_the_command_compares_resumes_and_reports(copy: Path) -> None:
    words = ["compare", "--task", "own_model.py:build", "--methods", "qsgd", "--workers", "2", "--out", "run"]
    words += ["--set", "training.max_rounds=2", "--set", "training.target=1.0"]
    done = command(*words, cwd=copy.parent)
    assert done.returncode == 0, done.stderr
    run = copy.parent / "run"
    assert len(rows_of(run)) == 4
    assert {row["upload_bytes"] for row in rows_of(run) if row["method"] == "qsgd"} != {0}
    assert "own model and data (own_model.py:build)" in (run / "report.html").read_text("utf-8")
    config = (run / "config.toml").read_text("utf-8")
    assert f'function = "{copy}:build"\nclients = 4\n' in config
    assert "payload_scale = 1.0" in config  # the built-in model's scale is not this one's
    assert "batch_size" not in config
    more = command(*words, "--seeds", "2", "--resume", cwd=copy.parent)
    assert more.returncode == 0, more.stderr
    assert {row["seed"] for row in rows_of(run)} == {0, 1}


def test_the_plan_takes_the_size_from_the_task(copy: Path) -> None:
    done = command("plan", "--task", "own_model.py:build", "--uplink", "0.001,0.004", cwd=copy.parent)
    assert done.returncode == 0, done.stderr
    assert "adagq-fit" in done.stdout
    with pytest.raises(ConfigError, match="give --params, or --task for a model of your own"):
        plan()


def test_it_is_deployed_on_two_nodes(copy: Path) -> None:
    words = ["deploy", "local", "--nodes", "2", "--task", "own_model.py:build", "--rounds", "2", "--out", "run"]
    done = command(*words, "--set", "training.target=1.0", "--set", "training.exchanges=1", cwd=copy.parent)
    assert done.returncode == 0, done.stderr
    rows = rows_of(copy.parent / "run")
    assert [row["clients"] for row in rows] == [2, 2]
    assert {row["clock"] for row in rows} == {"measured"}
    assert (copy.parent / "run" / "report.html").is_file()
