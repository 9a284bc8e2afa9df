"""`adagq deploy local` as a user meets it: killed, resumed, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
from local.conftest import rows_of, still_running

from adagq.experiments.config import Training
from adagq.flower.local.app import SCHEDULE, write_app
from adagq.flower.local.cluster import Federation, config_text
from adagq.flower.local.deploy import deployed_config
from adagq.flower.local.processes import Processes, descendants
from adagq.rounds import Schedule

COMMAND = [str(Path(sys.executable).parent / "adagq"), "deploy", "local"]


def test_settings_for_real_nodes() -> None:
    config = deployed_config(None, ["method=qsgd"], 3)
    assert (config.task.clients, config.payload_scale, config.methods) == (3, 1.0, ("qsgd",))


def test_the_app_carries_its_config(tmp_path: Path) -> None:
    import tomllib

    config = deployed_config(None, [], 2)
    project = tomllib.loads((write_app(tmp_path, config, tmp_path / "run") / "pyproject.toml").read_text("utf-8"))
    assert tomllib.loads(project["tool"]["flwr"]["app"]["config"]["config"])["task"]["clients"] == 2


def test_settings_of_the_server_reach_the_deployed_strategy() -> None:
    known = {field.name for field in fields(Schedule)} & Training.model_fields.keys()
    assert set(SCHEDULE) == known - {"deadline_factor"}  # which has a least value of its own


def listening(processes: list[int]) -> set[str]:
    """Return the addresses that these processes listen on, as /proc/net/tcp has them."""
    sockets = set()
    for pid in processes:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(os.readlink(link))
            except OSError:
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text("utf-8").splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                found.add(words[1].partition(":")[0])
    return found


def test_a_local_federation_listens_on_the_loopback_interface_alone(tmp_path: Path) -> None:
    with Federation(1, tmp_path) as federation:
        until = time.monotonic() + 60
        while "SuperNode" not in federation.tail("node-0") and time.monotonic() < until:
            time.sleep(0.2)
        assert listening([one.pid for one in descendants(os.getpid())]) == {"0100007F"}


def test_text_for_flowers_command_line() -> None:
    assert config_text({"a": 1, "b": "two words", "c": False}) == 'a=1 b="two words" c=false'


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
        "import os, sys, time; from pathlib import Path; from adagq.flower.local.processes import Processes\n"
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
