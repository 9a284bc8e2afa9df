"""Image data sets in local folders, in the forms in which people have them.

    idx       train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-…: plain or .gz (MNIST's own form)
    python    data_batch_1 … data_batch_5, test_batch: CIFAR-10's pickles, as torchvision unpacks them
    binary    data_batch_1.bin … data_batch_5.bin, test_batch.bin: one label byte and 3,072 pixels a record
    npz       x_train, y_train, x_test, y_test (or train_images, train_labels, …), images NCHW, NHWC or NHW

A reader returns None where nothing of its form lies in the folder, and raises `DataError` where something
does but is incomplete or damaged. Files come from anywhere: sizes are checked against headers, and pickles
go through an unpickler that knows plain arrays and nothing else.
"""

import gzip
import io
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from adagq.core.errors import DataError

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = tuple[Array, Array, Array, Array]  # train images, train labels, test images, test labels
Reader: TypeAlias = Callable[[Path], Arrays | None]

IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
CIFAR_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
CIFAR_RECORD = 1 + 3 * 32 * 32
NPZ_KEYS = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("train_x", "train_y", "test_x", "test_y"),
)


def read_idx(folder: Path) -> Arrays | None:
    """Read four IDX files."""
    # Some archives write a dot in place of the last hyphen of the stem: train-images.idx3-ubyte.
    found = [_first(folder, name, name.replace("-idx", ".idx")) for name in IDX_FILES]
    if not any(found):
        return None
    if missing := [name for name, path in zip(IDX_FILES, found, strict=True) if path is None]:
        raise DataError(f"{folder} lacks {', '.join(missing)} (plain or .gz)")
    a, b, c, d = (_idx(path) for path in found if path is not None)
    return a, b, c, d


def _first(folder: Path, *names: str) -> Path | None:
    paths = (folder / (name + suffix) for name in names for suffix in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def _idx(path: Path) -> Array:
    """Read one IDX file: 0, 0, type 8 (uint8), number of dimensions; big-endian dimensions; the bytes."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08" or len(raw) < 4 + 4 * raw[3]:
        raise DataError(f"{path} is not an IDX file of bytes (it begins with {raw[:4].hex() or 'nothing'})")
    shape = struct.unpack_from(f">{raw[3]}I", raw, 4)
    data = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
    # Python's integers: four 32-bit dimensions can overflow a 64-bit product.
    size = 1
    for length in shape:
        size *= length
    if data.size != size:
        raise DataError(f"{path} holds {data.size} bytes of data, its header says {shape}")
    return data.reshape(shape)


class _ArrayUnpickler(pickle.Unpickler):
    """Builds lists, strings and arrays. A pickle that names any other function is refused, not run."""

    ALLOWED = frozenset(
        {
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy._core.numeric", "_frombuffer"),
            ("numpy.core.numeric", "_frombuffer"),
            ("_codecs", "encode"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise DataError(f"it names {module}.{name}, which a data batch has no use for")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def read_python(folder: Path) -> Arrays | None:
    """Read CIFAR-10's pickled batches."""
    return _batches(folder, "", _python_batch)


def _python_batch(path: Path) -> tuple[Array, Array]:
    try:
        # latin1 is how pickles of Python 2 (the original files) keep their bytes.
        batch = _ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        batch = {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}
        images, labels = np.asarray(batch["data"], np.uint8), np.asarray(batch["labels"], np.int64)
        return images.reshape(-1, 3, 32, 32), labels
    except DataError as error:
        raise DataError(f"{path} was not read: {error}") from None
    except Exception as error:  # a damaged pickle can raise anything
        raise DataError(f"{path} is not a CIFAR-10 python batch ({type(error).__name__}: {error})") from error


def read_binary(folder: Path) -> Arrays | None:
    """Read CIFAR-10's binary batches."""
    return _batches(folder, ".bin", _binary_batch)


def _binary_batch(path: Path) -> tuple[Array, Array]:
    raw = np.fromfile(path, np.uint8)
    if raw.size == 0 or raw.size % CIFAR_RECORD:
        raise DataError(f"{path} has {raw.size} bytes, not a whole number of {CIFAR_RECORD}-byte records")
    records = raw.reshape(-1, CIFAR_RECORD)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)


def _batches(folder: Path, suffix: str, read: Callable[[Path], tuple[Array, Array]]) -> Arrays | None:
    paths = [folder / (name + suffix) for name in (*CIFAR_TRAIN, "test_batch")]
    if not any(path.is_file() for path in paths):
        return None
    if missing := [path.name for path in paths if not path.is_file()]:
        raise DataError(f"{folder} lacks {', '.join(missing)}")
    *train, test = (read(path) for path in paths)
    images, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return images, labels, *test


def read_npz(path: Path) -> Arrays | None:
    """Read one .npz file (not a folder); object arrays, which are pickles, are refused."""
    if path.suffix != ".npz" or not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            for keys in NPZ_KEYS:
                if set(keys) <= set(stored.files):
                    a, b, c, d = (stored[key] for key in keys)
                    return a, b, c, d
            held = ", ".join(stored.files)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    raise DataError(f"{path} holds {held or 'nothing'}; it needs {', '.join(NPZ_KEYS[0])}")
