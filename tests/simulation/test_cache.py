"""What was computed once is not computed again, and the rows are the same."""

from pathlib import Path
from typing import Any

import pytest

from adagq.experiments.config import resolve
from adagq.experiments.runner import run
from adagq.simulation.pool import InProcess

TREE: dict[str, Any] = {
    "methods": ["qsgd", "topk", "adagq"],
    "training": {"max_rounds": 3, "target": 1.0},
    "task": {"clients": 4, "data": "digits", "model": "mlp", "width": 8},
}


def rows(out: Path, memory: Path | None = None, **fleet: Any) -> list[str]:
    list(run(resolve(TREE | {"fleet": fleet}), out, memory=memory))
    return (out / "rows.jsonl").read_text().splitlines()


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods of workers that were called, one entry a call."""
    calls: list[str] = []
    plain = InProcess.submit

    def counting(self: InProcess, kind: str, model: int, *arguments: Any) -> int:
        calls.append(kind)
        return plain(self, kind, model, *arguments)

    monkeypatch.setattr(InProcess, "submit", counting)
    return calls


def test_other_links_need_no_training_again(tmp_path: Path, worked: list[str]) -> None:
    slow, fast = {"uplink_mbps": 1.0}, {"uplink_mbps": 20.0}
    rows(tmp_path / "slow", tmp_path / "memory", **slow)
    worked.clear()
    remembered = rows(tmp_path / "fast", tmp_path / "memory", **fast)
    assert worked.count("work") == 3 * 4  # AdaGQ adapts: it alone was run
    assert remembered == rows(tmp_path / "plain", **fast)


def test_torn_files_are_as_good_as_none(tmp_path: Path, worked: list[str]) -> None:
    first = rows(tmp_path / "first", tmp_path / "memory")
    for file in (tmp_path / "memory").iterdir():
        file.write_bytes(file.read_bytes()[:-40])
    worked.clear()
    assert rows(tmp_path / "second", tmp_path / "memory") == first
    assert worked.count("work") == 3 * 3 * 4


def test_nothing_is_remembered_of_another_task(tmp_path: Path, worked: list[str]) -> None:
    rows(tmp_path / "first", tmp_path / "memory")
    worked.clear()
    list(run(resolve(TREE | {"seed": 1}), tmp_path / "second", memory=tmp_path / "memory"))
    assert worked.count("work") == 3 * 3 * 4
