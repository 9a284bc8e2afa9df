"""The example app as its README runs it, on Ray and on real nodes: it learns, and says what it took.

Each test is one federation that several runs share: starting one costs more than running on it.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from local.conftest import QUICKSTART, finish, rows_of, still_running

from adagq.flower.local.cluster import Federation

METHODS = ("adagq", "adagq-fit")
LOCAL_PORTS = ("FLWR_LOCAL_SUPERLINK_HTTP_API_PORT", "FLWR_LOCAL_CONTROL_API_PORT")


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, all different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def test_it_learns_on_ray(tmp_path: Path) -> None:
    with Federation(4, tmp_path / "flower", simulation=True) as federation:
        for method in METHODS:
            rows = finish(
                *(federation, QUICKSTART, tmp_path / method, 600),
                method=method,
                num_server_rounds=4,
                learning_rate=0.3,
                min_nodes=4,  # on a busy machine Ray's nodes come one by one
            )
            assert [row["clients"] for row in rows] == [4] * 4
            assert rows[-1]["accuracy"] > 0.4  # ten classes
            assert rows_of(tmp_path / method, "incidents.jsonl") == []


@pytest.mark.parametrize(("plain", "methods"), [(False, METHODS), (True, METHODS[1:])], ids=["adagq node", "plain"])
def test_it_learns_on_two_real_nodes(plain: bool, methods: tuple[str, ...], tmp_path: Path) -> None:
    config = {"adagq-folder": str(tmp_path / "nodes")}
    with Federation(2, tmp_path / "flower", node_config=config, plain=plain) as federation:
        for method in methods:
            out = tmp_path / method
            rows = finish(
                *(federation, QUICKSTART, out, 600),
                method=method,
                num_server_rounds=3,
                learning_rate=0.3,
                exchanges=1,
            )
            assert [row["clients"] for row in rows] == [2] * 3
            assert rows[-1]["accuracy"] > 0.4
            assert {row["clock"] for row in rows} == {"measured"}
            exchanges = rows_of(out, "exchanges.jsonl")
            assert len(exchanges) == 6
            assert all(line["train_seconds"] > 0 and line["encode_seconds"] > 0 for line in exchanges)
            assert len(rows_of(out, "ledger.jsonl")) == 6
    models = list((tmp_path / "nodes").glob("partition-*/*/model.npz"))
    assert len(models) == 2 * len(methods)  # two nodes, each run: on their disks
    assert still_running(f"FLWR_HOME={tmp_path}") == []  # residents included


def documented(readme: str) -> str:
    """Return the setting and the first `flwr run` of an example's README, as they stand there."""
    setting = re.search(r"^    (export \w+=1)$", readme, re.MULTILINE)
    run = re.search(r"^    (flwr run \. .*)$", readme, re.MULTILINE)
    assert setting is not None
    assert run is not None
    return f"{setting[1]}; {run[1]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("flower_quickstart", ()),
        ("flower_sklearn", ()),
        ("flower_jax", ("jax",)),
        ("flower_lora", ("transformers", "peft")),
    ],
)
def test_the_documented_commands_work_from_a_copy_outside_the_checkout(
    name: str, needs: tuple[str, ...], tmp_path: Path
) -> None:
    for module in needs:
        pytest.importorskip(module, reason=f"{name} needs {module}, which the project does not install")
    app = tmp_path / "my_copy"
    shutil.copytree(QUICKSTART.parent / name, app, ignore=shutil.ignore_patterns("__pycache__"))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    home = {"FLWR_HOME": str(tmp_path / "flwr"), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    # Ports of its own: on Flower's usual ones another environment's SuperLink may listen, and would run the app.
    home |= {name: str(port) for name, port in zip(LOCAL_PORTS, free_ports(len(LOCAL_PORTS)), strict=True)}
    command = f"{documented((app / 'README.md').read_text('utf-8'))} --run-config num-server-rounds=2"
    try:
        done = subprocess.run(
            ["sh", "-c", command], cwd=app, env={**os.environ, **home, "PATH": path}, capture_output=True, timeout=300
        )
    finally:
        for pid in still_running(f"FLWR_HOME={tmp_path}"):  # the SuperLink that stays
            os.kill(pid, signal.SIGKILL)
    printed = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.returncode == 0, printed[-2000:]
    assert "[ROUND 2/2] accuracy" in printed, printed[-2000:]
