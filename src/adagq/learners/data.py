"""Data sets: images (N, channels, height, width), int64 labels, a training and a test part.

    digits           scikit-learn's 8x8 digits, embedded: 1,437 for training, 360 for testing
    synthetic        one smooth gaussian prototype per class plus noise; any shape, learnable by any model
    fashion-mnist    28x28 grey, from a local folder
    cifar10          32x32 colour, from a local folder

A folder is looked for in this order: the one given, $ADAGQ_DATA, ./data, ~/.cache/adagq/data, and Debian's
/usr/share/datasets/fashion-mnist (package dataset-fashion-mnist). `files` has the forms that are understood.
Nothing is fetched here: `adagq data get` (`copies`) does that when told to.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adagq.errors import ConfigError, DataError
from adagq.learners.files import Array, Arrays, Reader, read_binary, read_idx, read_npz, read_python
from adagq.seeds import generator

Shape = tuple[int, int, int]

DATA = ("digits", "synthetic", "fashion-mnist", "cifar10")


@dataclass(frozen=True, eq=False)
class DataSet:
    """Images as they are stored (uint8, or float32), labels 0 … classes - 1."""

    name: str
    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array
    classes: int

    @property
    def shape(self) -> Shape:
        channels, height, width = self.train_images.shape[1:]
        return int(channels), int(height), int(width)

    def normalisation(self) -> tuple[Array, Array]:
        """Return each channel's mean and standard deviation over the training images, as float32."""
        total = np.zeros(self.shape[0])
        squares = np.zeros(self.shape[0])
        # Block by block: all of CIFAR-10 in float64 would be 1.2 GB.
        for start in range(0, len(self.train_images), 1000):
            block = self.train_images[start : start + 1000].astype(np.float64)
            total += block.sum((0, 2, 3))
            squares += np.square(block).sum((0, 2, 3))
        count = self.train_images.size / self.shape[0]
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
        # A channel that never changes has nothing to scale.
        deviation[deviation < 1e-6] = 1
        return mean.astype(np.float32), deviation.astype(np.float32)


@dataclass(frozen=True)
class Local:
    """A data set that lies in a folder: what it must look like and where it may be."""

    shape: Shape
    classes: int
    folders: tuple[str, ...]  # below a data folder
    system: tuple[str, ...]  # absolute
    readers: tuple[Reader, ...]
    forms: str


LOCAL = {
    "fashion-mnist": Local(
        (1, 28, 28),
        10,
        ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw", "FashionMNIST"),
        ("/usr/share/datasets/fashion-mnist",),
        (read_idx,),
        "IDX files (train-images-idx3-ubyte … t10k-labels-idx1-ubyte, plain or .gz) or fashion-mnist.npz",
    ),
    "cifar10": Local(
        (3, 32, 32),
        10,
        ("cifar-10-batches-py", "cifar-10-batches-bin", "cifar10", "cifar-10", "CIFAR10"),
        (),
        (read_python, read_binary),
        "python batches (cifar-10-batches-py), binary batches (cifar-10-batches-bin) or cifar10.npz",
    ),
}


def load_data(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    shape: Shape = (1, 16, 16),
    classes: int = 10,
    samples: int = 4000,
    seed: int = 0,
) -> DataSet:
    """Return a data set by name; the keywords describe `synthetic` and nothing else."""
    if name == "digits":
        return digits()
    if name == "synthetic":
        return synthetic(shape, classes, samples, seed=seed)
    if name in LOCAL:
        return _local(name, folder)
    raise ConfigError(f"data: {name!r} is unknown; allowed: {', '.join(DATA)}")


def digits() -> DataSet:
    """Return scikit-learn's digits; every fifth of each class, drawn once and for all, is for testing."""
    from sklearn.datasets import load_digits  # a second of imports that other data sets do not need

    bunch = load_digits()
    images = bunch.images.astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    order = generator(0, "digits").permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    for_test = np.arange(len(labels)) % 5 == 0
    train, test = np.sort(by_class[~for_test]), np.sort(by_class[for_test])
    return DataSet("digits", images[train], labels[train], images[test], labels[test], 10)


def synthetic(
    shape: Shape = (1, 16, 16), classes: int = 10, samples: int = 4000, noise: float = 1.0, seed: int = 0
) -> DataSet:
    """Return `samples` training images and a quarter as many test images: prototype of the class + noise.

    Prototypes are 4x4 pictures blown up to the full size, so that they survive convolutions and pooling.
    """
    if min(*shape, samples) < 1 or classes < 2:
        raise DataError(f"synthetic: shape {shape}, {classes} classes, {samples} samples: too small")
    channels, height, width = shape
    coarse = generator(seed, "synthetic", "prototypes").standard_normal((classes, channels, 4, 4), np.float32)
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 4 // width
    prototypes = coarse[:, :, rows][:, :, :, columns]

    def draw(part: str, count: int) -> tuple[Array, Array]:
        source = generator(seed, "synthetic", part)
        labels = source.permutation(np.arange(count) % classes).astype(np.int64)
        images = source.standard_normal((count, *shape), np.float32) * np.float32(noise)
        return images + prototypes[labels], labels

    return DataSet("synthetic", *draw("train", samples), *draw("test", max(classes, samples // 4)), classes)


def _local(name: str, folder: str | os.PathLike[str] | None) -> DataSet:
    local = LOCAL[name]
    if folder is not None and not Path(folder).exists():
        raise DataError(f"{name}: {folder} does not exist; it should be a folder with {local.forms}")
    given, usual = ([Path(folder)], []) if folder is not None else (_from_environment(), _usual())
    system = [Path(path) for path in local.system] if folder is None else []
    for place in _places(name, given, usual, system):
        for read in (*local.readers, read_npz):
            if (arrays := read(place)) is not None:
                return make_data(name, arrays, place)
    looked = ", ".join(map(str, [*given, *usual, *system]))
    raise DataError(f"{name} was not found in {looked}; accepted: {local.forms}; or fetch it: adagq data get {name}")


def _from_environment() -> list[Path]:
    return [Path(part) for part in os.environ.get("ADAGQ_DATA", "").split(os.pathsep) if part]


def _usual() -> list[Path]:
    return [Path("data"), cache_folder()]


def cache_folder() -> Path:
    """Return where `adagq data get` puts its copies."""
    return Path.home() / ".cache" / "adagq" / "data"


def _places(name: str, given: list[Path], usual: list[Path], system: list[Path]) -> Iterator[Path]:
    """Yield the folders and .npz files to try, in order."""
    for base in [*given, *usual]:
        folders = [base, *(base / below for below in LOCAL[name].folders)]
        # IDX files lying bare in ./data may well be MNIST's, whose names are the same; a folder that was
        # given for this purpose is believed.
        yield from folders if base in given else folders[1:]
        for folder in folders:
            yield from sorted(path for path in folder.glob("*.npz") if _is_named(path, name))
    yield from system


def _is_named(path: Path, name: str) -> bool:
    plain = path.stem.lower().replace("-", "").replace("_", "")
    return plain.startswith(name.replace("-", ""))


def make_data(name: str, arrays: Arrays, place: Path) -> DataSet:
    """Return a local data set from what a reader found in `place`, checked for shapes and labels."""
    local = LOCAL[name]
    train_images, test_images = (_images(name, local, array, place) for array in arrays[::2])
    train_labels, test_labels = (np.asarray(array).reshape(-1) for array in arrays[1::2])
    for part, images, labels in (("train", train_images, train_labels), ("test", test_images, test_labels)):
        if len(images) != len(labels) or not len(images):
            raise DataError(f"{name} in {place}: {len(images)} {part} images, {len(labels)} labels")
        if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= local.classes:
            raise DataError(f"{name} in {place}: {part} labels must be integers from 0 to {local.classes - 1}")
    return DataSet(
        name,
        train_images,
        train_labels.astype(np.int64),
        test_images,
        test_labels.astype(np.int64),
        local.classes,
    )


def _images(name: str, local: Local, images: Array, place: Path) -> Array:
    channels, height, width = local.shape
    if images.shape[1:] == (height, width) and channels == 1:
        images = images[:, None]
    elif images.shape[1:] == (height, width, channels):
        images = images.transpose(0, 3, 1, 2)
    if images.shape[1:] != local.shape:
        raise DataError(f"{name} in {place}: images of shape {images.shape[1:]}, expected {local.shape}")
    if images.dtype == np.uint8:
        return np.array(images, order="C")  # owned and writable, as torch wants it
    if not np.issubdtype(images.dtype, np.floating):
        raise DataError(f"{name} in {place}: images are {images.dtype}, expected uint8 or floats")
    return np.array(images, np.float32, order="C")
