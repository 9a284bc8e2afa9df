"""`adagq bench link`: both sides on loopback and on a shaped link, and the way from there to a plan."""

import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from typer.testing import CliRunner

from adagq.benchmarks.link import LinkError, LinkSpeed, append_csv, listen, measure
from adagq.cli import app
from adagq.core.errors import ConfigError


@contextmanager
def listening(nodes: int) -> Iterator[tuple[int, list[LinkSpeed]]]:
    """A listener on loopback, and what it finds; ends when `nodes` have reported."""
    ports: Queue[int] = Queue()
    found: list[LinkSpeed] = []
    thread = threading.Thread(target=listen, args=(0, found.append, nodes, "127.0.0.1", ports.put), daemon=True)
    thread.start()
    yield ports.get(timeout=10), found
    thread.join(timeout=20)
    assert not thread.is_alive()


def test_nodes_are_measured_one_after_the_other() -> None:
    with listening(nodes=2) as (port, found):
        results: list[LinkSpeed] = []
        others = [
            threading.Thread(target=lambda name=name: results.append(measure("127.0.0.1", port, name, seconds=0.4)))
            for name in ("lyon", "turin")
        ]
        for thread in others:
            thread.start()
        for thread in others:
            thread.join(timeout=30)
    assert {one.name for one in found} == {"lyon", "turin"}
    assert set(found) == set(results)
    assert all(one.uplink_mbps > 10 and one.downlink_mbps > 10 and 0 < one.latency_seconds < 1 for one in found)


def test_strangers_do_not_end_the_listener() -> None:
    with listening(nodes=1) as (port, found):
        for greeting in (b"", b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b'{"adagq": "report", "name": "=cmd", "x": 1}\n'):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
                link.sendall(greeting)
        measure("127.0.0.1", port, "lyon", seconds=0.2)
    assert [one.name for one in found] == ["lyon"]


def test_mistakes_are_one_line() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(LinkError, match="is `adagq bench link --listen` running there"):
        measure("127.0.0.1", port, "lyon")
    with pytest.raises(ConfigError, match="--name"):
        measure("127.0.0.1", port, "=HYPERLINK()")
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(LinkError, match="in use"):
        listen(taken.getsockname()[1], print, host="127.0.0.1")


SHAPED = """
import threading
from queue import Queue
from adagq.benchmarks.link import listen, measure
ports = Queue()
threading.Thread(target=listen, args=(0, lambda found: None, 1, "127.0.0.1", ports.put), daemon=True).start()
found = measure("127.0.0.1", ports.get(timeout=10), "lyon", seconds=2.0)
print(found.uplink_mbps, found.downlink_mbps)
"""
SETUP = "ip link set lo mtu 1500 up && tc qdisc add dev lo root tbf rate 8mbit burst 16kb latency 400ms && exec"


@pytest.mark.skipif(not all(map(shutil.which, ("unshare", "ip", "tc"))), reason="needs unshare, ip and tc")
def test_a_link_of_eight_mbit_is_measured_as_such() -> None:
    command = ["unshare", "-rn", "sh", "-c", f'{SETUP} "$@"', "sh", sys.executable, "-c", SHAPED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode and any(word in done.stderr for word in ("unshare:", "RTNETLINK", "qdisc")):
        pytest.skip(f"no shaped link here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    uplink, downlink = map(float, done.stdout.split())
    # Headers are 4 %; a busy machine may lose a little more, and nothing can be faster than the link.
    assert 6.5 < uplink < 8.2
    assert 6.5 < downlink < 8.2


def run(*words: Any) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False, env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    return done.output


def test_from_three_offices_to_a_plan(tmp_path: Path) -> None:
    csv, fleet = tmp_path / "links.csv", tmp_path / "fleet.toml"
    for name, up, down in (("graz", 0.5, 66.0), ("lyon", 4.8, 63.0), ("turin", 19.1, 64.0)):
        append_csv(csv, LinkSpeed(name, up, down, 0.01))
    said = run("fleet", "from-csv", csv, "--out", fleet, "--epoch-seconds", 20)
    assert "3 clients" in said
    plan = run("plan", "--fleet", fleet, "--params", "11.2M")
    assert "Compression pays" in plan
    assert "graz" in plan
    assert max(map(len, plan.splitlines())) <= 80
    slower = run("plan", "--fleet", fleet, "--params", "11.2M", "--compute", 2000)
    assert slower != plan
    with pytest.raises(ConfigError, match="leave out --uplink"):
        run("plan", "--fleet", fleet, "--params", "11.2M", "--uplink", "5,20")


def test_a_plan_of_days_is_called_a_typing_error(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text("[[client]]\nname = 'graz'\nuplink_mbps = 0.0001\n[[client]]\nuplink_mbps = 5\n")
    plan = " ".join(run("plan", "--fleet", fleet, "--params", "11.2M").split())
    assert "days, waiting for graz: a typing error?" in plan
