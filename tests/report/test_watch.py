"""`adagq watch`: what a run directory says while the run goes on."""

import io
import json
import time
from pathlib import Path

import pytest
from rich.console import Console

from adagq.core.errors import CheckpointError
from adagq.report.progress import TAIL_BYTES
from adagq.report.units import bytes_text, percent, seconds_text
from adagq.report.watch import view


def shown(run_dir: Path, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(view(run_dir))
    return console.file.getvalue()


def row(round: int, method: str = "adagq-fit") -> dict:
    return {
        "method": method,
        "seed": 0,
        "round": round,
        "seconds": 2.0 * round,
        "round_seconds": 2.0,
        "accuracy": 0.2 * round,
        "upload_bytes": 1000,
        "download_bytes": 2_000_000,
    }


def line(round: int, client: int, method: str = "adagq-fit") -> dict:
    seconds = {f"{part}_seconds": 0.5 for part in ("download", "compute", "upload", "waiting")}
    return {"method": method, "seed": 0, "round": round, "client": client, "upload_bytes": 500, **seconds}


def write(path: Path, lines: list[dict]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), "utf-8")


def test_a_round_under_way_says_who_works_waits_and_is_lost(tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", [row(1, "qsgd"), row(1), row(2)])
    write(tmp_path / "ledger.jsonl", [line(2, 9, "qsgd"), line(2, 0), line(2, 1)])
    incident = {"method": "adagq-fit", "seed": 0, "round": 2, "client": 2, "kind": "lost", "reason": "error 5: gone"}
    write(tmp_path / "incidents.jsonl", [incident])
    states = {"0": "computing", "1": "waiting", "2": "lost", "3": "sending"}
    nodes = {
        client: {"name": f"site-{client}", "state": state, "since": time.time() - 5} for client, state in states.items()
    }
    (tmp_path / "status.json").write_text(json.dumps({"round": 3, "at": time.time(), "nodes": nodes}), "utf-8")
    assert "…" not in shown(tmp_path, width=80)
    text = shown(tmp_path)
    assert "round 2 closed, round 3 under way" in " ".join(text.split())  # the path before it may fill a line
    assert f"accuracy {percent(0.4)} after {seconds_text(4.0)}" in text
    assert f"{bytes_text(2000)} up, {bytes_text(4e6)} down" in text
    for client, state in states.items():
        assert any(f"site-{client}" in part and state in part for part in text.splitlines())
    assert "round 2, client 2, lost: error 5: gone" in text
    assert "9" not in [part.split()[0] for part in text.splitlines() if part.strip()]  # another method's client


def test_a_simulation_has_no_status_and_is_shown_all_the_same(tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", [row(1)])
    write(tmp_path / "ledger.jsonl", [line(1, 0)])
    assert "under way" not in shown(tmp_path)


def test_before_the_first_round_and_without_a_run(tmp_path: Path) -> None:
    assert "no round has closed yet" in shown(tmp_path)
    with pytest.raises(CheckpointError, match="no such folder"):
        view(tmp_path / "nowhere")


def test_of_a_large_ledger_only_the_end_is_read(tmp_path: Path) -> None:
    rounds = TAIL_BYTES // 100
    write(tmp_path / "rows.jsonl", [row(rounds)])
    write(tmp_path / "ledger.jsonl", [line(round, round % 2) for round in range(1, rounds + 1)])
    assert (tmp_path / "ledger.jsonl").stat().st_size > TAIL_BYTES
    assert str(rounds) in shown(tmp_path)
