"""`adagq deploy local` as a user meets it: killed, resumed, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adagq.deployment.app import write_app
from adagq.deployment.federation import config_text
from adagq.deployment.local import deployed_config
from adagq.deployment.processes import Processes, descendants
from deployment.conftest import rows_of

COMMAND = [str(Path(sys.executable).parent / "adagq"), "deploy", "local"]


def test_settings_for_real_nodes() -> None:
    config = deployed_config(None, ["method=qsgd"], 3)
    assert (config.task.clients, config.payload_scale, config.methods) == (3, 1.0, ("qsgd",))


def test_the_app_carries_its_config(tmp_path: Path) -> None:
    import tomllib

    config = deployed_config(None, [], 2)
    project = tomllib.loads((write_app(tmp_path, config, tmp_path / "run") / "pyproject.toml").read_text("utf-8"))
    assert tomllib.loads(project["tool"]["flwr"]["app"]["config"]["config"])["task"]["clients"] == 2


def test_text_for_flowers_command_line() -> None:
    assert config_text({"a": 1, "b": "two words", "c": False}) == 'a=1 b="two words" c=false'


def still_running(mark: str) -> list[int]:
    """Return the processes that have `mark` in their command or environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            text = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in text and int(path.name) != os.getpid():
            found.append(int(path.name))
    return found


SLEEPER = "import subprocess, sys; subprocess.Popen(['sleep', '300'], start_new_session=True).wait()"


def test_leaving_the_block_ends_children_and_grandchildren(tmp_path: Path) -> None:
    mark = f"MARK={tmp_path}"
    with Processes(tmp_path, {**os.environ, "MARK": str(tmp_path)}) as processes:
        child = processes.start("sleeper", ["python", "-c", SLEEPER])
        while not descendants(child.pid):
            time.sleep(0.05)
        assert len(still_running(mark)) == 2
    assert still_running(mark) == []


def test_a_killed_parent_takes_its_children_along(tmp_path: Path) -> None:
    script = (
        "import os, sys, time; from pathlib import Path; from adagq.deployment.processes import Processes\n"
        f"processes = Processes(Path({str(tmp_path)!r}), {{**os.environ, 'MARK': {str(tmp_path)!r}}}).__enter__()\n"
        "processes.start('sleeper', ['python', '-c', 'import time; time.sleep(300)']); print('up', flush=True)\n"
        "time.sleep(300)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"up\n"
    parent.kill()
    parent.wait()
    until = time.monotonic() + 10
    while still_running(f"MARK={tmp_path}") and time.monotonic() < until:
        time.sleep(0.05)
    assert still_running(f"MARK={tmp_path}") == []


@pytest.mark.slow
def test_a_killed_command_leaves_nothing_running_and_is_resumed(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "run"
    command = [*COMMAND, "--nodes", "2", "--method", "adagq-fit", "--rounds", "4", "--set", "training.exchanges=1"]
    command += ["--set", "training.target=1.0", "--out", str(out), "--logs", str(logs)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = subprocess.Popen(command, env=environment)
    until = time.monotonic() + 900
    while len(rows_of(out)) < 2:
        assert first.poll() is None
        assert time.monotonic() < until
        time.sleep(0.2)
    first.send_signal(signal.SIGKILL)
    first.wait()
    until = time.monotonic() + 60
    while still_running(f"FLWR_HOME={logs}") and time.monotonic() < until:
        time.sleep(0.2)
    assert still_running(f"FLWR_HOME={logs}") == []
    closed = rows_of(out)
    subprocess.run([*command, "--resume"], env=environment, check=True, timeout=900)
    rows = rows_of(out)
    assert [row["round"] for row in rows] == [1, 2, 3, 4]
    assert rows[: len(closed)] == closed
    assert still_running(f"FLWR_HOME={logs}") == []
    page = (out / "report.html").read_text("utf-8")
    assert "Accuracy over time" in page
    assert "irtual time" not in page
    assert json.loads((out / "summary.json").read_text("utf-8"))["run"]["clock"] == "measured"
