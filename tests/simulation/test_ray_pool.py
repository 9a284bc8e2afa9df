"""Workers on Ray: the rows of one process, also when a machine is lost in the middle and after kill -9."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from adagq.core.errors import AdagqError, ConfigError
from adagq.core.vectors import Layout
from adagq.experiments.config import load_config
from adagq.experiments.runner import run
from adagq.learners import LearningTask
from adagq.simulation.processes import open_pool
from adagq.simulation.ray_pool import RayPool, address_of
from command import COMMAND

ray = pytest.importorskip("ray")

SMALL = (
    "task.data=synthetic", "task.shape=[1,8,8]", "task.samples=240", "task.model=mlp", "task.partition=iid",
    "task.clients=6", "fleet={}", "training.max_rounds=3", "training.target=1.0", "methods=['adagq-fit','topk']",
)  # fmt: skip


def rows(directory, workers, settings=SMALL, **options):
    list(run(load_config(None, settings), directory, workers, **options))
    return (directory / "rows.jsonl").read_bytes()


@pytest.mark.parametrize("bad", ["raya", "ray:", "rays://x"])
def test_a_setting_that_is_no_cluster_is_said(bad):
    with pytest.raises(ConfigError, match="ray://HOST:PORT"):
        address_of(bad)


def test_ray_gives_the_rows_of_one_process_and_a_workers_error(tmp_path):
    expected = rows(tmp_path / "one", 1)
    try:
        assert rows(tmp_path / "ray", "ray") == expected
        assert not ray.is_initialized()
        with open_pool("ray") as pool:
            pool.prepare(LearningTask(data="fashion-mnist", data_folder=str(tmp_path)), Layout.of({}))
            job = pool.submit("evaluate", pool.publish(_replica()), 0, 1)
            with pytest.raises(AdagqError, match="fashion-mnist"):
                pool.wait([job])
    finally:
        ray.shutdown()


def _replica():
    import numpy as np

    from adagq.client.replica import Replica

    return Replica.first(0, np.zeros(1, np.float32), np.zeros(0, np.float32))


@pytest.mark.slow
def test_a_machine_that_is_lost_in_the_middle_changes_no_row(tmp_path, monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_worker_niceness", "0")
    longer = (*SMALL, "training.max_rounds=12")
    expected = rows(tmp_path / "one", 1, longer)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        other = cluster.add_node(num_cpus=2)
        steps = run(load_config(None, longer), tmp_path / "ray", f"ray:{cluster.address}")
        for number, _ in enumerate(steps):
            if number == 3:
                cluster.remove_node(other, allow_graceful=False)
        assert (tmp_path / "ray" / "rows.jsonl").read_bytes() == expected
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.slow
def test_a_cluster_from_outside_gives_the_rows_of_one_process(tmp_path, monkeypatch):
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_worker_niceness", "0")
    expected = rows(tmp_path / "one", 1)
    port = free_port_below_those_of_workers()
    head = {"num_cpus": 2, "include_dashboard": False, "ray_client_server_port": port}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        assert rows(tmp_path / "ray", f"ray://127.0.0.1:{port}") == expected
        assert not ray.is_initialized()
    finally:
        ray.shutdown()
        cluster.shutdown()


def free_port_below_those_of_workers():
    """Ray keeps 10002 to 19999 for its workers and asks for a port above 1023."""
    for port in range(9400, 10002):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


def test_a_cluster_that_is_not_there_is_said(monkeypatch):
    def refuse(**options):
        raise ConnectionError("ray client connection timeout\nand a long trace")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(AdagqError, match=r"ray://127.0.0.1:9 cannot be reached: ray client connection timeout$"):
        RayPool("ray://127.0.0.1:9")


@pytest.mark.slow
def test_a_run_on_ray_is_resumed_after_kill_nine(tmp_path):
    longer = [*SMALL, "training.max_rounds=30"]
    expected = rows(tmp_path / "one", 1, longer)
    command = [*COMMAND, "compare", "--methods", "adagq-fit,topk", "--workers", "ray"]
    command += ["--out", str(tmp_path / "ray"), *(part for setting in longer[:-2] for part in ("--set", setting))]
    command += ["--set", longer[-1]]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_rounds(tmp_path / "ray" / "rows.jsonl", 4)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run([*command, "--resume"], check=True, stdout=subprocess.DEVNULL)
    kept = [line for line in rows_of(tmp_path / "ray") if line["method"] != "ideal"]
    assert kept == [json.loads(line) for line in expected.splitlines()]


def rows_of(directory):
    return [json.loads(line) for line in (directory / "rows.jsonl").read_bytes().splitlines()]


def wait_for_rounds(path, count, seconds=300):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if path.is_file() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path}: no {count} rounds in {seconds} s")
