"""`adagq pause` and `adagq resume` on a run of real messages."""

import threading
import time
from pathlib import Path

import pytest
from test_strategy import rows, start
from typer.testing import CliRunner

from adagq.cli import app
from adagq.core.errors import CheckpointError
from adagq.experiments.pausing import is_paused, pause
from adagq.flower import Compressed
from adagq.report.watch import view
from loopback import LoopbackGrid
from toy import ToySpec


def command(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def test_a_paused_run_waits_between_rounds_and_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "run"

    def paused_after_two(past: list) -> bool:
        if len(past) == 2:
            command("pause", str(out))
        return False

    strategy = Compressed("qsgd", out=out, until=paused_after_two, deadline_seconds=30.0)
    grid = LoopbackGrid(ToySpec().build(), tmp_path / "nodes")
    running = threading.Thread(target=start, args=(strategy, grid, 4), daemon=True)
    running.start()
    until = time.monotonic() + 60
    while not is_paused(out) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1.5)
    assert len(rows(out)) == 2
    assert running.is_alive()
    assert "paused" in str(view(out).renderables[0])  # type: ignore[union-attr]
    assert "goes on" in command("resume", str(out))
    running.join(60)
    past = rows(out)
    assert [row["round"] for row in past] == [1, 2, 3, 4]
    assert past[2]["round_seconds"] < 1.5  # the pause is in no round


def test_a_finished_run_does_not_wait(tmp_path: Path) -> None:
    out = tmp_path / "run"
    grid = LoopbackGrid(ToySpec().build(), tmp_path / "nodes")
    strategy = Compressed("qsgd", out=out, until=lambda past: pause(out), deadline_seconds=30.0)
    start(strategy, grid, 3)
    assert len(rows(out)) == 1


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        pause(tmp_path / "nowhere")
    assert "was not paused" in command("resume", str(tmp_path))
