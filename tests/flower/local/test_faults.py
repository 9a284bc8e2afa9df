"""Real nodes that are killed, and a node that nobody knows. Minutes: Flower takes its time to miss a node."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from local.conftest import FAULT_APP, finish, rows_of, still_running

from adagq.flower.local.cluster import Federation
from adagq.flower.local.processes import descendants, is_resident

pytestmark = pytest.mark.slow
DEADLINE_SECONDS = 60.0


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.1)


@pytest.mark.parametrize("moment", ["training", "upload"])
def test_a_killed_node_costs_one_deadline_at_most_and_comes_back_with_a_whole_model(
    moment: str, tmp_path: Path
) -> None:
    elements = 40 if moment == "training" else 8_000_000
    out = tmp_path / "run"
    config = {"elements": elements, "train-seconds": 5.0 if moment == "training" else 0.0, "num-server-rounds": 30}
    config |= {"deadline-seconds": DEADLINE_SECONDS, "out": str(out)}
    with Federation(3, tmp_path / "flower", node_config={"adagq-folder": str(tmp_path / "nodes")}) as federation:
        running = federation.run(FAULT_APP, config)
        log = federation.processes.log("node-2")

        def times(text: str) -> int:
            return log.read_text("utf-8", "replace").count(text)

        wait_until(lambda: len(rows_of(out)) >= 2, 600)
        sign = "Start `flwr-clientapp`" if moment == "training" else "Sending: train"
        begun = times(sign)
        wait_until(lambda: times(sign) > begun, 300)
        federation.processes.kill("node-2")
        killed_after = len(rows_of(out))
        wait_until(lambda: any(row["clients"] == 2 for row in rows_of(out)[killed_after:]), 4 * DEADLINE_SECONDS)
        federation.start_node(2)
        wait_until(lambda: rows_of(out)[-1]["clients"] == 3, 10 * DEADLINE_SECONDS)
        running.kill()
    rows = rows_of(out)
    assert max(row["round_seconds"] for row in rows[killed_after:]) < DEADLINE_SECONDS + 15
    missed = [one for one in rows_of(out, "incidents.jsonl") if one["kind"] in ("lost", "late")]
    assert {one["client"] for one in missed} == {2}
    back = [line for line in rows_of(out, "ledger.jsonl") if line["client"] == 2 and line["round"] > killed_after]
    assert back[0]["download_bytes"] > 4 * elements
    assert still_running(f"FLWR_HOME={tmp_path}") == []  # what the killed node had started is gone too


@pytest.mark.parametrize("plain", [False, True], ids=["adagq node", "plain"])
def test_a_resident_killed_in_the_middle_costs_no_update(plain: bool, tmp_path: Path) -> None:
    out = tmp_path / "run"
    config = {"train-seconds": 2.0, "num-server-rounds": 4, "deadline-seconds": DEADLINE_SECONDS, "out": str(out)}
    with Federation(2, tmp_path / "flower", plain=plain) as federation:
        running = federation.run(FAULT_APP, config)
        models = tmp_path / "flower" / "nodes"
        wait_until(lambda: len(rows_of(out)) >= 1, 300)
        before = {path: path.stat().st_mtime_ns for path in models.glob("*/*/model.npz")}
        assert len(before) == 2
        wait_until(lambda: any(path.stat().st_mtime_ns > then for path, then in before.items()), 120)  # it trains now
        residents = [
            process
            for node in ("node-0", "node-1")
            for process in descendants(federation.processes.pid(node))
            if is_resident(process.pid)
        ]
        assert len(residents) == 2
        for process in residents:
            process.send(signal.SIGKILL)
        assert running.wait(300) == 0, federation.tail("run", 20)
        log = "".join(federation.processes.log(node).read_text("utf-8", "replace") for node in ("node-0", "node-1"))
    assert "starting it again" in log
    assert [row["clients"] for row in rows_of(out)] == [2] * 4
    assert rows_of(out, "incidents.jsonl") == []
    assert still_running(f"FLWR_HOME={tmp_path}") == []


def test_a_node_whose_training_diverged_is_left_out_and_named(tmp_path: Path) -> None:
    with Federation(0, tmp_path / "flower") as federation:
        federation.nodes = 2
        federation.start_node(0)
        federation.start_node(1, fault="nan")
        rows = finish(federation, FAULT_APP, tmp_path / "run", 600, num_server_rounds=2)
    assert [row["clients"] for row in rows] == [1, 1]
    incidents = rows_of(tmp_path / "run", "incidents.jsonl")
    assert {(one["client"], one["kind"]) for one in incidents} == {(1, "diverged")}
    assert "not finite" in incidents[0]["reason"]


def test_with_tls_an_unregistered_node_takes_no_part(tmp_path: Path) -> None:
    with Federation(2, tmp_path / "flower", tls=True) as federation:
        federation.start_node(2)  # it has a key, and nobody has registered it
        rows = finish(federation, FAULT_APP, tmp_path / "run", 600, num_server_rounds=2, method="adagq-fit")
        stranger = federation.processes.log("node-2").read_text("utf-8", "replace")
    assert [row["clients"] for row in rows] == [2, 2]
    assert {line["client"] for line in rows_of(tmp_path / "run", "ledger.jsonl")} == {0, 1}
    assert "SuperNode ID" not in stranger
