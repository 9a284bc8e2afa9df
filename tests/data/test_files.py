"""Every form in which the data sets are found is read back exactly as it was written."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from adagq.core.errors import DataError
from adagq.data import load_data

random = np.random.default_rng(0)


def arrays(shape: tuple[int, ...], train: int = 25, test: int = 7):
    return (
        random.integers(0, 256, (train, *shape), np.uint8),
        random.integers(0, 10, train),
        random.integers(0, 256, (test, *shape), np.uint8),
        random.integers(0, 10, test),
    )


def same(data, expected) -> None:
    stored = (data.train_inputs, data.train_labels, data.test_inputs, data.test_labels)
    for got, want in zip(stored, expected, strict=True):
        np.testing.assert_array_equal(got, want)
    assert data.train_inputs.dtype == np.uint8
    assert data.train_labels.dtype == np.int64


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_idx(folder: Path, parts, packed: bool = False, dot: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    for name, array in zip(names, parts, strict=True):
        file = (name.replace("-idx", ".idx") if dot else name) + "-ubyte"
        raw = idx(array)
        (folder / (file + ".gz" * packed)).write_bytes(gzip.compress(raw) if packed else raw)


def python2_batch(images: np.ndarray, labels: np.ndarray) -> bytes:
    """Return a pickle as Python 2 wrote the original batches: byte strings, and NumPy's old module names."""

    def string(raw: bytes) -> bytes:
        return b"T" + struct.pack("<i", len(raw)) + raw

    dtype = b"cnumpy\ndtype\n" + string(b"u1") + b"K\x00K\x01\x87R(K\x03" + string(b"|")
    dtype += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + string(b"b") + b"\x87R"
    array += b"(K\x01M" + struct.pack("<H", len(images)) + b"M" + struct.pack("<H", 3072) + b"\x86" + dtype
    array += b"\x89" + string(images.tobytes()) + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + string(b"data") + array + string(b"labels") + numbers + b"u."


def write_python(folder: Path, parts, protocol: int | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    images, labels, test_images, test_labels = parts
    split = zip(np.array_split(images, 5), np.array_split(labels, 5), strict=True)
    named = {f"data_batch_{i}": part for i, part in enumerate(split, 1)}
    for name, (x, y) in {**named, "test_batch": (test_images, test_labels)}.items():
        flat = x.reshape(len(x), -1)
        if protocol is None:
            raw = python2_batch(flat, y)
        else:
            raw = pickle.dumps({b"data": flat, b"labels": y.tolist(), b"batch_label": name}, protocol)
        (folder / name).write_bytes(raw)


def write_binary(folder: Path, parts) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    records = [
        np.concatenate([y[:, None].astype(np.uint8), x.reshape(len(x), -1)], 1)
        for x, y in zip(parts[::2], parts[1::2], strict=True)
    ]
    for i, part in enumerate(np.array_split(records[0], 5), 1):
        part.tofile(folder / f"data_batch_{i}.bin")
    records[1].tofile(folder / "test_batch.bin")


@pytest.mark.parametrize(("packed", "dot"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("below", [".", "fashion-mnist", "FashionMNIST/raw"])
def test_idx_files(tmp_path, packed, dot, below):
    a, b, c, d = arrays((28, 28))
    write_idx(tmp_path / below, (a, b, c, d), packed, dot)
    data = load_data("fashion-mnist", tmp_path)
    same(data, (a[:, None], b, c[:, None], d))
    assert data.shape == (1, 28, 28)


@pytest.mark.parametrize("protocol", [None, 2, 5], ids=["python 2", "protocol 2", "protocol 5"])
@pytest.mark.parametrize("below", [".", "cifar-10-batches-py"])
def test_python_batches(tmp_path, protocol, below):
    parts = arrays((3, 32, 32))
    write_python(tmp_path / below, parts, protocol)
    same(load_data("cifar10", tmp_path), parts)


@pytest.mark.parametrize("below", [".", "cifar-10-batches-bin"])
def test_binary_batches(tmp_path, below):
    parts = arrays((3, 32, 32))
    write_binary(tmp_path / below, parts)
    same(load_data("cifar10", str(tmp_path)), parts)


@pytest.mark.parametrize(
    "keys",
    [
        ("x_train", "y_train", "x_test", "y_test"),
        ("train_images", "train_labels", "test_images", "test_labels"),
    ],
    ids=["keras", "medmnist"],
)
@pytest.mark.parametrize("last", [False, True], ids=["NCHW", "NHWC"])
def test_npz(tmp_path, keys, last):
    a, b, c, d = arrays((3, 32, 32))
    axes = (0, 2, 3, 1) if last else (0, 1, 2, 3)
    stored = (a.transpose(axes), b[:, None], c.transpose(axes), d[:, None])
    np.savez_compressed(tmp_path / "CIFAR_10.npz", **dict(zip(keys, stored, strict=True)))
    same(load_data("cifar10", tmp_path), (a, b, c, d))
    same(load_data("cifar10", tmp_path / "CIFAR_10.npz"), (a, b, c, d))


def test_float_images_stay_floats(tmp_path):
    a, b, c, d = arrays((28, 28))
    path = tmp_path / "mine.npz"
    np.savez(path, x_train=a / 255, y_train=b, x_test=c / 255, y_test=d)
    data = load_data("fashion-mnist", path)
    assert data.train_inputs.dtype == np.float32
    assert data.train_inputs.shape == (25, 1, 28, 28)


def test_a_pickle_that_calls_anything_is_refused_and_not_run(tmp_path):
    class Payload:
        def __reduce__(self):
            return Path.touch, (tmp_path / "owned",)

    write_python(tmp_path, arrays((3, 32, 32)), 2)
    (tmp_path / "data_batch_3").write_bytes(pickle.dumps({"data": Payload(), "labels": []}))
    with pytest.raises(DataError, match=r"data_batch_3 was not read: it names .*, which a data batch has no use"):
        load_data("cifar10", tmp_path)
    assert not (tmp_path / "owned").exists()


def test_default_folders_in_order(tmp_path, monkeypatch):
    ours, theirs = arrays((28, 28)), arrays((28, 28))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ADAGQ_DATA", raising=False)
    write_idx(tmp_path / "home" / ".cache" / "adagq" / "data" / "fashion-mnist", theirs)
    np.testing.assert_array_equal(load_data("fashion-mnist").train_labels, theirs[1])
    # Bare IDX files in ./data could be MNIST's: only a folder that says whose they are counts.
    write_idx(tmp_path / "data", ours)
    np.testing.assert_array_equal(load_data("fashion-mnist").train_labels, theirs[1])
    write_idx(tmp_path / "data" / "fashion-mnist", ours)
    np.testing.assert_array_equal(load_data("fashion-mnist").train_labels, ours[1])
    write_idx(tmp_path / "given", theirs)
    monkeypatch.setenv("ADAGQ_DATA", str(tmp_path / "given"))
    np.testing.assert_array_equal(load_data("fashion-mnist").train_labels, theirs[1])


def damage_nothing(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def damage_missing(folder: Path) -> None:
    (folder / "t10k-labels-idx1-ubyte").unlink()


def damage_truncated(folder: Path) -> None:
    path = folder / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])


def damage_magic(folder: Path) -> None:
    (folder / "train-labels-idx1-ubyte").write_bytes(b"PK\x03\x04" + bytes(20))


def damage_gzip(folder: Path) -> None:
    path = folder / "train-labels-idx1-ubyte"
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(path.read_bytes())[:-9])
    path.unlink()


def damage_labels(folder: Path) -> None:
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(np.full(25, 10)))


def damage_count(folder: Path) -> None:
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(24)))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damage_nothing, "was not found in .*; accepted: IDX files .* or fashion-mnist.npz"),
        (damage_missing, "lacks t10k-labels-idx1-ubyte"),
        (damage_truncated, "19599 bytes of data, its header says"),
        (damage_magic, "is not an IDX file"),
        (damage_gzip, "cannot be read"),
        (damage_labels, "labels must be integers from 0 to 9"),
        (damage_count, "25 train images, 24 labels"),
    ],
)
def test_damaged_idx_is_one_clear_line(tmp_path, damage, words):
    write_idx(tmp_path, arrays((28, 28)))
    damage(tmp_path)
    with pytest.raises(DataError, match=words) as caught:
        load_data("fashion-mnist", tmp_path)
    assert "\n" not in str(caught.value)


def test_damaged_cifar_is_one_clear_line(tmp_path):
    with pytest.raises(DataError, match=r"nowhere does not exist; .* python batches .* binary batches .* cifar10.npz"):
        load_data("cifar10", tmp_path / "nowhere")
    write_binary(tmp_path, arrays((3, 32, 32)))
    (tmp_path / "data_batch_2.bin").write_bytes(bytes(3074))
    with pytest.raises(DataError, match="3074 bytes, not a whole number of 3073-byte records"):
        load_data("cifar10", tmp_path)
    (tmp_path / "data_batch_2.bin").unlink()
    with pytest.raises(DataError, match=r"lacks data_batch_2\.bin"):
        load_data("cifar10", tmp_path)


def test_damaged_npz_is_one_clear_line(tmp_path):
    path = tmp_path / "cifar10.npz"
    path.write_bytes(b"not a zip")
    with pytest.raises(DataError, match="cannot be read"):
        load_data("cifar10", path)
    np.savez(path, images=np.zeros(3))
    with pytest.raises(DataError, match="holds images; it needs x_train, y_train, x_test, y_test"):
        load_data("cifar10", path)
    a, b, c, d = arrays((28, 28))
    np.savez(path, x_train=a, y_train=b, x_test=c, y_test=d)
    with pytest.raises(DataError, match=r"images of shape \(28, 28\), expected \(3, 32, 32\)"):
        load_data("cifar10", path)


@pytest.mark.skipif(
    not Path("/usr/share/datasets/fashion-mnist").exists(),
    reason="Debian's dataset-fashion-mnist is not installed",
)
def test_debian_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ADAGQ_DATA", raising=False)
    data = load_data("fashion-mnist")
    assert np.bincount(data.train_labels).tolist() == [6000] * 10
    assert data.test_inputs.shape == (10000, 1, 28, 28)
    mean, deviation = data.normalisation()
    np.testing.assert_allclose([mean[0] / 255, deviation[0] / 255], [0.2860, 0.3530], atol=1e-4)
