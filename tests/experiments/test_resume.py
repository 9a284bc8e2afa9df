"""A run that is killed again and again ends with the bytes of one that was left alone, and leaves nothing behind."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from adagq.core.atomic import draft_of
from command import COMMAND, SMALL, adagq, environment

METHODS, ROUNDS = 4, 24  # the fourth method is the reference that every comparison has
SETTINGS = ["compare", "--methods", "qsgd+residual,adagq-fit,fedavg", "--set", f"training.max_rounds={ROUNDS}", *SMALL]
FILES = ("config.toml", "rows.jsonl", "ledger.jsonl", "incidents.jsonl", "audit.jsonl")
DEADLINE_SECONDS = 300.0
PYTHONS_OWN = "pymp-"  # Python's folder for the socket of its fork server: 0 bytes, and not ours to place


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    done = adagq(*SETTINGS, "--workers", "1", "--out", str(folder / "run"), env=environment(folder / "t"))
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_at_random_points_change_no_byte(whole: Path, tmp_path: Path, kills: int) -> None:
    out, drawn = tmp_path / "run", random.Random(kills)
    for kill in range(kills):
        # One kill in four comes while the run starts; the others follow a write by no time or by milliseconds.
        while_starting = kill % 4 == 3
        signs = drawn.choice([_size_of(out / "rows.jsonl"), _size_of(out / "ledger.jsonl"), _draft_in(out)])
        waits = 0 if while_starting else drawn.randint(1, round(1.7 * ROUNDS * METHODS / kills))
        delay = drawn.uniform(0.1, 4.0) if while_starting else drawn.choice([0.0, drawn.uniform(0.0, 0.03)])
        _killed_run(out, tmp_path / "t", signs, waits, delay, workers=1 + kill % 2, group=kill % 3 > 0)
    done = adagq(*SETTINGS, "--resume", "--out", str(out), env=environment(tmp_path / "t"))
    assert done.returncode == 0, done.stderr
    for name in FILES:
        assert (out / name).read_bytes() == (whole / name).read_bytes(), name
    assert not list(out.rglob(".*"))
    assert not _left_in(tmp_path / "t")


def _killed_run(
    out: Path, temporary: Path, sign: Callable[[], object], waits: int, delay: float, workers: int, group: bool
) -> None:
    """Start or continue the run, kill it when `sign` has changed `waits` times, and look for what it left."""
    begun = (out / "config.toml").exists()  # where nothing is, there is nothing to resume
    command = [*COMMAND, *SETTINGS, "--workers", str(workers), *["--resume"][:begun], "--out", str(out)]
    with (temporary.parent / "stderr.txt").open("w+b") as errors:
        process = subprocess.Popen(
            command, env=environment(temporary), start_new_session=True, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            last, deadline = sign(), time.monotonic() + DEADLINE_SECONDS
            while waits:
                assert process.poll() is None, errors.seek(0) or errors.read().decode()
                assert time.monotonic() < deadline
                if (now := sign()) != last:
                    last, waits = now, waits - 1
                time.sleep(0.0002)
            time.sleep(delay)
            shared = {name for member in _members(process.pid) for name in _shared_memory(member)}
        finally:
            if process.poll() is None:
                (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
            process.wait()
    deadline = time.monotonic() + 30
    while _members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _members(process.pid), "worker processes are left behind"
    assert not [name for name in shared if Path(name).exists()]
    assert not _left_in(temporary)


def _size_of(path: Path) -> Callable[[], object]:
    return lambda: path.stat().st_size if path.exists() else 0


def _draft_in(out: Path) -> Callable[[], object]:
    draft, saved = draft_of(out / "checkpoint.npz"), out / "checkpoint.npz"
    return lambda: (draft.exists(), saved.stat().st_ino if saved.exists() else 0)


def _members(session: int) -> list[int]:
    """Return the processes of the session that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, its_session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(its_session) == session and state != "Z":
                found.append(int(entry.name))
    return found


def _shared_memory(process: int) -> set[str]:
    """Return the named shared memory that a process maps."""
    try:
        lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    except OSError:
        return set()
    return {line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line}


def _left_in(temporary: Path) -> list[str]:
    return [path.name for path in temporary.iterdir() if not path.name.startswith(PYTHONS_OWN)]
