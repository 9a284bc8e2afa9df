"""The files of a run that only grow: whole lines at a time, with a running digest of each.

A checkpoint notes how long each file was and the digest of that much (`marks`): what comes after is of a round that was
not closed, and what is before and has changed is damage, which `check_marks` names. The digest is carried along, so a
round costs its own bytes, however long the files are.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from adagq.core.errors import CheckpointError, OutputError
from adagq.core.jsonl import append_lines, encoded_lines

ROWS, LEDGER, INCIDENTS, AUDIT = "rows.jsonl", "ledger.jsonl", "incidents.jsonl", "audit.jsonl"
EXCHANGES: Final = "exchanges.jsonl"  # of a deployment: every message as it was measured
GROWING: Final = (INCIDENTS, LEDGER, ROWS, AUDIT)  # of every run, in the order in which a round is written
CHUNK: Final = 2**20
REMEDY: Final = "restore it from a copy; without one begin anew with another --out"


class Mark(NamedTuple):
    """How long a file is, and the SHA-256 of that much."""

    size: int
    digest: str


class RowFiles:
    """Open for appending; made if they are not there. `more` are files that not every run has."""

    def __init__(self, folder: Path, more: Sequence[str] = ()) -> None:
        self._folder = folder
        self._open: dict[str, int] = {}
        names = (*more, *GROWING)
        self._digests = {name: hashlib.sha256() for name in names}
        try:
            for name in names:
                self._open[name] = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
                self._digests[name] = digest_of(folder / name)
        except BaseException:
            self.close()
            raise

    def append(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write whole lines: all of them, or none if the disk is full."""
        lines = list(rows)
        append_lines(self._open[name], lines)
        self._digests[name].update(encoded_lines(lines))

    def sync(self) -> None:
        """Bring all files to the disk."""
        for file in self._open.values():
            os.fsync(file)

    def marks(self) -> dict[str, Mark]:
        """Return how long the files are now, with their digests."""
        return {
            name: Mark(os.fstat(file).st_size, self._digests[name].hexdigest()) for name, file in self._open.items()
        }

    def check_there(self) -> None:
        """OutputError if a file was removed or replaced: lines would go where nobody finds them."""
        for name, file in self._open.items():
            path = self._folder / name
            if not path.exists() or not os.path.samestat(path.stat(), os.fstat(file)):
                what = name if self._folder.exists() else "the run directory"
                raise OutputError(f"{path}: {what} was removed or replaced while the run was writing to it")

    def close(self) -> None:
        for file in self._open.values():
            os.close(file)


def cut_back(folder: Path, marks: Mapping[str, Mark]) -> None:
    """Drop what was written after the marks; `check_marks` was there before."""
    for name, mark in marks.items():
        if (folder / name).stat().st_size > mark.size:
            os.truncate(folder / name, mark.size)


def check_marks(folder: Path, marks: Mapping[str, Mark]) -> None:
    """CheckpointError that names the first file that is missing, too short, or not what it was."""
    for name, mark in marks.items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else -1
        if size < mark.size:
            reason = "missing" if size < 0 else f"{size} bytes, shorter than its checkpoint says ({mark.size})"
            raise CheckpointError(f"{path}: {reason}; it was changed. {REMEDY.capitalize()}")
        if digest_of(path, mark.size).hexdigest() != mark.digest:
            raise CheckpointError(f"{path}: damaged, its first {mark.size} bytes were changed; {REMEDY}")


def digest_of(path: Path, size: int | None = None) -> "hashlib._Hash":
    """Return the running SHA-256 of a file, or of its first `size` bytes."""
    digest, left = hashlib.sha256(), path.stat().st_size if size is None else size
    with path.open("rb") as file:
        while left > 0 and (chunk := file.read(min(CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
    return digest
