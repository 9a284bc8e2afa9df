"""`adagq bench soak` in a small form: real nodes, every kind of fault, the server's memory, a verified run."""

from pathlib import Path

import pytest
from local.conftest import still_running

from adagq.benchmarks import soak as benchmark
from adagq.benchmarks.soak import FAULTS, Fault, Soaked, soak

pytestmark = pytest.mark.slow


def test_every_fault_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = iter(FAULTS)

    class InTurn(benchmark.random.Random):
        def choice(self, _):
            return next(kinds)

    monkeypatch.setattr(benchmark.random, "Random", InTurn)
    lines: list[str] = []
    soaked = soak(3, 2 * len(FAULTS) + 2, tmp_path, every=2, target=0.5, progress=lines.append)
    assert [fault.kind for fault in soaked.faults] == list(FAULTS)
    assert soaked.failures() == []
    assert len(lines) == len(FAULTS)
    assert {one["kind"] for one in soaked.incidents} <= {"lost", "late", "refused", "clamped", "failed"}
    assert still_running(f"FLWR_HOME={tmp_path}") == []


def test_what_did_not_hold_is_said() -> None:
    row = {"round": 1, "accuracy": 0.2}
    usage = [{"server app": {"megabytes": size}, "SuperLink": {"megabytes": 100.0}} for size in (100.0, 130.0)]
    soaked = Soaked(0.9, 2, [Fault(1, 3, "garbage")], usage, [row], [{"client": 4, "kind": "refused"}])
    assert soaked.failures() == [
        "1 of 2 rounds",
        "accuracy 0.200, the target is 0.9",
        "server app: memory grew from 100 to 130 MB",
        "refused without a fault: clients [4]",
    ]
