"""Image data sets that lie in a folder: where it is looked for, and what it must hold.

A folder is looked for in this order: the one given, $ADAGQ_DATA, ./data, ~/.cache/adagq/data, and the places where
systems install it (Debian's package dataset-fashion-mnist). `files` has the forms that are understood. Nothing is
fetched here: `adagq data get` (`fetch`) does that when asked to.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from adagq.core.errors import DataError
from adagq.data.dataset import DataSet
from adagq.data.files import Array, Arrays, Reader, read_npz
from adagq.data.registry import DATASETS, DataOptions


@dataclass(frozen=True)
class FolderData:
    """A data set of images in a folder: what it must look like and where it may be."""

    name: str
    shape: tuple[int, int, int]
    classes: int
    folders: tuple[str, ...]  # below a data folder
    system: tuple[str, ...]  # absolute
    readers: tuple[Reader, ...]
    forms: str


FOLDERS: Final[dict[str, FolderData]] = {}


def register_folder(kind: FolderData) -> FolderData:
    """Add a data set that is read from a folder to the registry, and return it."""

    def load(options: DataOptions) -> DataSet:
        return _load(kind, options.folder)

    DATASETS.add(kind.name, load)
    FOLDERS[kind.name] = kind
    return kind


def _load(kind: FolderData, folder: str | os.PathLike[str] | None) -> DataSet:
    name = kind.name
    if folder is not None and not Path(folder).exists():
        raise DataError(f"{name}: {folder} does not exist; it should be a folder with {kind.forms}")
    given, usual = ([Path(folder)], []) if folder is not None else (_from_environment(), _usual())
    system = [Path(path) for path in kind.system] if folder is None else []
    for place in _places(kind, given, usual, system):
        for read in (*kind.readers, read_npz):
            if (arrays := read(place)) is not None:
                return make_data(name, arrays, place)
    looked = ", ".join(map(str, [*given, *usual, *system]))
    raise DataError(f"{name} was not found in {looked}; accepted: {kind.forms}; or fetch it: adagq data get {name}")


def data_folders(given: str | os.PathLike[str] | None) -> list[Path]:
    """Return the folders in which data are looked for: the one given, or the usual places."""
    return [Path(given)] if given is not None else [*_from_environment(), *_usual()]


def _from_environment() -> list[Path]:
    return [Path(part) for part in os.environ.get("ADAGQ_DATA", "").split(os.pathsep) if part]


def _usual() -> list[Path]:
    return [Path("data"), cache_folder()]


def cache_folder() -> Path:
    """Return where `adagq data get` puts its copies."""
    return Path.home() / ".cache" / "adagq" / "data"


def _places(kind: FolderData, given: list[Path], usual: list[Path], system: list[Path]) -> Iterator[Path]:
    """Yield the folders and .npz files to try, in order."""
    for base in [*given, *usual]:
        folders = [base, *(base / below for below in kind.folders)]
        # IDX files lying bare in ./data may well be MNIST's, whose names are the same; a folder that was
        # given for this purpose is believed.
        yield from folders if base in given else folders[1:]
        for folder in folders:
            yield from sorted(path for path in folder.glob("*.npz") if _is_named(path, kind.name))
    yield from system


def _is_named(path: Path, name: str) -> bool:
    plain = path.stem.lower().replace("-", "").replace("_", "")
    return plain.startswith(name.replace("-", ""))


def make_data(name: str, arrays: Arrays, place: Path) -> DataSet:
    """Return a local data set from what a reader found in `place`, checked for shapes and labels."""
    kind = FOLDERS[name]
    train_images, test_images = (_images(kind, array, place) for array in arrays[::2])
    train_labels, test_labels = (np.asarray(array).reshape(-1) for array in arrays[1::2])
    for part, images, labels in (("train", train_images, train_labels), ("test", test_images, test_labels)):
        if len(images) != len(labels) or not len(images):
            raise DataError(f"{name} in {place}: {len(images)} {part} images, {len(labels)} labels")
        if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= kind.classes:
            raise DataError(f"{name} in {place}: {part} labels must be integers from 0 to {kind.classes - 1}")
    return DataSet(
        name,
        train_images,
        train_labels.astype(np.int64),
        test_images,
        test_labels.astype(np.int64),
        kind.classes,
    )


def _images(kind: FolderData, images: Array, place: Path) -> Array:
    channels, height, width = kind.shape
    if images.shape[1:] == (height, width) and channels == 1:
        images = images[:, None]
    elif images.shape[1:] == (height, width, channels):
        images = images.transpose(0, 3, 1, 2)
    if images.shape[1:] != kind.shape:
        raise DataError(f"{kind.name} in {place}: images of shape {images.shape[1:]}, expected {kind.shape}")
    if images.dtype == np.uint8:
        return np.array(images, order="C")  # owned and writable, as torch wants it
    if not np.issubdtype(images.dtype, np.floating):
        raise DataError(f"{kind.name} in {place}: images are {images.dtype}, expected uint8 or floats")
    return np.array(images, np.float32, order="C")
