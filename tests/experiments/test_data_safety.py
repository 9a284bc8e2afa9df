"""Full disks, read-only folders, other people's files, two runs at once: nothing is overwritten or half written.

File-size limits stand in for a full disk where the test runs in this process; a real one, too small and made for the
test alone, is used where the system lets us mount.
"""

import hashlib
import json
import random
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adagq.core.errors import CheckpointError, OutputError
from adagq.experiments import checkpoint
from adagq.experiments.config import Config, load_config
from adagq.experiments.run_directory import RunDirectory
from adagq.experiments.runner import run
from adagq.report import plan_heatmap, write_report, write_tensorboard
from command import COMMAND, SMALL, adagq, environment

FILES = ("config.toml", "rows.jsonl", "ledger.jsonl", "incidents.jsonl")
METHODS = 'methods=["qsgd+residual", "adagq"]'


def config() -> Config:
    return load_config(None, [METHODS, "training.max_rounds=3", *SMALL[1::2]])


@contextmanager
def no_file_beyond(nbytes: int) -> Iterator[None]:
    """Let no write of this process reach beyond `nbytes`, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all the room it wants."""
    out = tmp_path_factory.mktemp("whole") / "run"
    list(run(config(), out))
    return out


@pytest.mark.parametrize("nbytes", [0, 300, 900, 1500, 2500, 12_000, 20_000, 45_000])
def test_a_full_disk_stops_the_run_and_room_lets_it_go_on(whole: Path, tmp_path: Path, nbytes: int) -> None:
    """From a disk that holds not even the settings to one that holds the rows, but no second checkpoint."""
    out, append = tmp_path / "run", RunDirectory.append

    def append_to_full_disk(*arguments: Any) -> None:  # the temporary files of the run lie elsewhere
        with no_file_beyond(nbytes):
            append(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunDirectory, "append", append_to_full_disk)
        with pytest.raises(OutputError, match=r"File too large\); make room") as raised:
            list(run(config(), out))
    assert "\n" not in str(raised.value)
    assert f"--resume --out {out}" in str(raised.value)
    for name in ("rows.jsonl", "ledger.jsonl"):
        kept = (out / name).read_bytes() if (out / name).exists() else b""
        assert (whole / name).read_bytes().startswith(kept)
        assert kept.endswith(b"\n") or not kept
    assert not list(tmp_path.rglob(".*"))
    list(run(config(), out, resume=True))
    for name in (*FILES, "audit.jsonl"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()


def test_a_full_disk_leaves_the_old_report(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_bytes((whole / name).read_bytes())
    write_report(folder)
    write_tensorboard(folder)
    before = contents(folder)
    with (folder / "rows.jsonl").open("ab") as rows:
        rows.write((whole / "rows.jsonl").read_bytes().replace(b'"qsgd+residual"', b'"other"'))
    before["rows.jsonl"] = (folder / "rows.jsonl").read_bytes()
    for write in (write_report, write_tensorboard):
        with pytest.raises(OutputError, match="make room"), no_file_beyond(1000):
            write(folder)
    assert contents(folder) == before


def test_a_full_disk_leaves_the_old_map(tmp_path: Path) -> None:
    axis, path = [1e6, 2e6, 3e6], tmp_path / "map.svg"
    plan_heatmap(np.full((3, 3), 0.5), axis, axis, path)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="make room"), no_file_beyond(1000):
        plan_heatmap(np.full((3, 3), 0.1), axis, axis, path)
    assert contents(tmp_path) == {"map.svg": before}


def test_a_second_run_is_refused_while_the_first_one_writes(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = run(config(), out)
    next(first)
    for resume in (False, True):
        before = contents(out)
        with pytest.raises(CheckpointError, match="another run is writing" if resume else "there already"):
            next(run(config(), out, resume=resume))
        assert contents(out) == before
    list(islice(first, 1))
    first.close()
    list(run(config(), out, resume=True))
    assert contents(out)["rows.jsonl"] == (whole / "rows.jsonl").read_bytes()


def test_what_a_kill_leaves_before_the_first_round_is_no_obstacle(whole: Path, tmp_path: Path) -> None:
    for resume in (False, True):
        out = tmp_path / str(resume)
        out.mkdir()
        (out / ".config.toml.new").write_bytes(b"half a conf")
        list(run(config(), out, resume=resume))
        assert {name: contents(out)[name] for name in FILES} == {name: contents(whole)[name] for name in FILES}


def test_without_a_checkpoint_whole_runs_are_kept(whole: Path, tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).write_bytes((whole / name).read_bytes())
    assert list(run(config(), tmp_path, resume=True)) == []
    rows = (tmp_path / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "rows.jsonl").write_bytes(b"".join(rows[:-1]) + rows[-1][:20])  # the last run was not at its end
    (tmp_path / "checkpoint.npz").unlink(missing_ok=True)
    last = [row for row in rows if json.loads(row)["method"] == json.loads(rows[-1])["method"]]
    assert len(list(run(config(), tmp_path, resume=True))) == len(last) < len(rows)
    assert {name: contents(tmp_path)[name] for name in FILES} == {name: contents(whole)[name] for name in FILES}


def test_a_deployment_without_a_checkpoint_is_not_thrown_away(whole: Path, tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).write_bytes((whole / name).read_bytes())
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match=r"has rows but no checkpoint\.npz"):
        RunDirectory(tmp_path, (tmp_path / "config.toml").read_text("utf-8"), resume=True)
    assert contents(tmp_path) == before


def test_any_damage_to_a_checkpoint_is_found(whole: Path, tmp_path: Path) -> None:
    """Cut short, bits flipped, parts overwritten, in the data and in the tables of the zip."""
    data, drawn, path = (whole / "checkpoint.npz").read_bytes(), random.Random(1), tmp_path / "checkpoint.npz"
    good = checkpoint.load(whole / "checkpoint.npz")
    assert good is not None
    assert good.settings == hashlib.sha256((whole / "config.toml").read_bytes()).hexdigest()
    refused = 0
    for number in range(400):
        damaged, at = bytearray(data), drawn.randrange(len(data))
        if number % 4 == 0:
            damaged = damaged[:at]
        elif number % 4 == 1:
            damaged[at] ^= 1 << drawn.randrange(8)
        elif number % 4 == 2:
            damaged[-1 - drawn.randrange(1500)] = drawn.randrange(256)  # the table of contents is at the end
        else:
            damaged[at : at + 4096] = bytes(len(damaged[at : at + 4096]))
        path.write_bytes(damaged)
        try:
            read = checkpoint.load(path)
        except CheckpointError:
            refused += 1
        else:  # a date or another note of the zip's, which nothing depends on
            assert read is not None
            assert (read.settings, read.state, read.marks) == (good.settings, good.state, good.marks)
            assert set(read.arrays) == set(good.arrays)
            assert all(np.array_equal(read.arrays[name], good.arrays[name]) for name in good.arrays)
    assert refused > 300


TRAIN = ["train", "--method", "qsgd", "--workers", "1", "--set", "training.max_rounds=2", *SMALL]


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("option", "reason"), [("size=16k", "No space left on device"), ("ro", "Read-only file system")]
)
def test_a_real_disk_that_is_full_or_read_only(tmp_path: Path, option: str, reason: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    inside = 'mount -t tmpfs -o "$1" tmpfs "$2" || exit 99; shift 2; "$@"; code=$?; ls -A "$DISK/run"; exit $code'
    command = ["unshare", "-rm", "sh", "-c", inside, "sh", option, str(disk), *COMMAND, *TRAIN]
    try:
        done = subprocess.run(
            [*command, "--out", str(disk / "run")],
            capture_output=True, text=True, check=False, env=environment(tmp_path / "tmp", DISK=str(disk)),
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("no unshare")
    if done.returncode in (1, 99) and "adagq" not in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr.strip()}")
    assert done.returncode == 2, done.stderr
    message = next(line for line in done.stderr.splitlines() if line.startswith("adagq: "))
    assert reason in message
    assert ("make room" if option != "ro" else "choose another place") in message
    assert ".new" not in done.stdout
    assert "Traceback" not in done.stderr


def test_a_path_below_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", "utf-8")
    done = adagq(*TRAIN, "--out", str(tmp_path / "file" / "run"), env=environment(tmp_path / "tmp"))
    assert done.returncode == 2
    assert last_line(done.stderr).startswith(f"adagq: {tmp_path / 'file' / 'run'}: cannot be written")
    assert "Traceback" not in done.stderr
    assert (tmp_path / "file").read_text("utf-8") == "mine"


def test_standard_output_that_is_full_is_reported_in_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "plan", "--params", "1M"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["adagq: No space left on device"]


def test_too_long_a_temporary_folder_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20)
    done = adagq("train", *SMALL, "--workers", "2", "--out", str(tmp_path / "run"), env=environment(folder))
    assert done.returncode == 2
    assert f"{folder}: too long a path for the socket of worker processes" in done.stderr.replace("\n", "")
    assert not (tmp_path / "run").exists()
