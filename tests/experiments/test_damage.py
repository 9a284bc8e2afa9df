"""Damage to a run directory: a flipped bit anywhere is harmless or named, and a directory that vanishes is noticed."""

import random
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from adagq.core.errors import CheckpointError, OutputError
from adagq.experiments import row_files
from adagq.experiments.config import Config, load_config
from adagq.experiments.row_files import GROWING, RowFiles, check_marks
from adagq.experiments.runner import run
from command import SMALL

FLIPS = 60


def config(*more: str) -> Config:
    methods = 'methods=["qsgd+residual", "adagq-fit"]'
    return load_config(None, [methods, "training.max_rounds=4", *SMALL[1::2], *more])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbs."""
    out = tmp_path_factory.mktemp("whole") / "run"
    list(run(config("fleet.drop_rate=0.2"), out))
    return out


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, left in the middle of its second method."""
    out = tmp_path_factory.mktemp("left") / "run"
    running = run(config("fleet.drop_rate=0.2"), out)
    list(islice(running, 6))
    running.close()
    return out


def test_every_flipped_bit_is_harmless_or_named(whole: Path, left: Path, tmp_path: Path) -> None:
    drawn = random.Random(13)
    files = sorted(path.name for path in left.iterdir())
    assert {*GROWING, "config.toml", "checkpoint.npz"} == set(files)
    named = dict.fromkeys(files, 0)
    for number in range(FLIPS):
        name = files[number % len(files)]
        out = tmp_path / str(number)
        shutil.copytree(left, out)
        data = bytearray((out / name).read_bytes())
        data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
        (out / name).write_bytes(data)
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        message = ""
        try:
            list(run(config("fleet.drop_rate=0.2"), out, resume=True))
        except CheckpointError as error:
            message = str(error)
        if message:
            assert name in message
            assert "\n" not in message
            assert {path.name: path.read_bytes() for path in out.iterdir()} == before
            named[name] += 1
        else:  # a note of the zip's that nothing depends on, such as a date
            assert name == "checkpoint.npz"
            for one in GROWING:
                assert (out / one).read_bytes() == (whole / one).read_bytes()
        shutil.rmtree(out)
    assert all(named[name] == FLIPS // len(files) for name in (*GROWING, "config.toml"))
    assert named["checkpoint.npz"] >= 5


@pytest.mark.parametrize("name", [*GROWING, "config.toml"])
def test_a_file_that_is_cut_short_or_gone_is_named(left: Path, tmp_path: Path, name: str) -> None:
    for number, change in enumerate((lambda path: path.write_bytes(path.read_bytes()[:-3]), Path.unlink)):
        out = tmp_path / str(number)
        shutil.copytree(left, out)
        change(out / name)
        with pytest.raises(CheckpointError, match=name):
            list(run(config("fleet.drop_rate=0.2"), out, resume=True))


def test_what_is_not_utf8_is_named(left: Path, tmp_path: Path) -> None:
    shutil.copytree(left, out := tmp_path / "run")
    (out / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError, match=r"config\.toml: damaged, not UTF-8"):
        list(run(config("fleet.drop_rate=0.2"), out, resume=True))


def test_damage_is_found_when_more_is_asked_for(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, out := tmp_path / "run")
    rows = (out / "rows.jsonl").read_bytes()
    (out / "rows.jsonl").write_bytes(rows.replace(b'"round":1', b'"round":9', 1))
    with pytest.raises(CheckpointError, match=r"rows\.jsonl: damaged"):
        list(run(config("fleet.drop_rate=0.2", "seeds=2"), out, resume=True))


def test_a_directory_that_vanishes_is_noticed_within_a_round(tmp_path: Path) -> None:
    out = tmp_path / "run"
    running = run(config(), out)
    next(running)
    shutil.rmtree(out)
    with pytest.raises(OutputError, match="the run directory was removed or replaced while the run was writing"):
        next(running)
    assert not out.exists()


def test_a_file_that_is_replaced_is_noticed_within_a_round(tmp_path: Path) -> None:
    out = tmp_path / "run"
    running = run(config(), out)
    next(running)
    shutil.copy(out / "rows.jsonl", out / "copy")
    (out / "copy").replace(out / "rows.jsonl")
    with pytest.raises(OutputError, match=r"rows\.jsonl was removed or replaced"):
        next(running)


def test_a_round_s_digests_cost_its_own_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = RowFiles(tmp_path)
    for number in range(5):
        files.append("rows.jsonl", [{"round": number, "value": float(np.float32(0.1))}])
        with monkeypatch.context() as patch:  # no file is read for it
            patch.setattr(row_files, "digest_of", None)
            marks = files.marks()
        check_marks(tmp_path, marks)
    files.close()
    again = RowFiles(tmp_path)
    assert again.marks() == marks
    again.close()
