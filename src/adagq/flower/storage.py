"""What a node keeps on its disk between messages: its replica of the model, and its codec's state.

Every message may be a new process on the node, and Flower ships its own state back and forth with each; so the model
stays here and only its version and path are in Flower's state. Files are replaced in one step. They are not forced to
the platter: a model that a crash left torn or old is found by its digest, and the server sends it again.

The state of the round before is kept as well: a server that was killed may ask for the same round again, and what its
first answer left behind belongs to an update that nobody added.
"""

import re
import shutil
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import xxhash

from adagq.client.replica import Replica
from adagq.core.atomic import draft_of
from adagq.core.codec import Arrays
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector

NEVER: Final = 0  # round of no state
KEPT_DAYS: Final = 7  # of runs that are over
RUN_NAME: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")
MODEL: Final = "model.npz"


def digest_of(vector: FloatVector, buffers: FloatVector) -> str:
    """Return the name of a model's content: equal models, and hardly any others, have the same.

    >>> one, two = np.zeros(1, np.float32), np.zeros(2, np.float32)
    >>> digest_of(one, two) == digest_of(two, one)
    False
    """
    digest = xxhash.xxh3_64(np.int64(vector.size).tobytes())
    digest.update(np.ascontiguousarray(vector).data)
    digest.update(np.ascontiguousarray(buffers).data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Storage:
    """One node's folder of one run."""

    folder: Path

    @classmethod
    def of_run(cls, base: Path, name: str, run: str) -> "Storage":
        """Return the folder of a run; its name comes from the server, so it is checked."""
        if not RUN_NAME.fullmatch(run):
            raise PayloadError(f"run = {run[:80]!r}: must be 1 to 64 letters, digits, hyphens and underscores")
        return cls(base / file_name(name) / run)

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    def replica(self) -> Replica | None:
        """Return the model that is kept here; None if there is none that can be read."""
        arrays = _read(self.model)
        try:
            return (
                None if arrays is None else Replica.first(int(arrays["version"]), arrays["vector"], arrays["buffers"])
            )
        except (KeyError, TypeError, ValueError):
            return None

    def keep(self, replica: Replica) -> None:
        self._write(self.model, version=np.array(replica.version), vector=replica.vector, buffers=replica.buffers)

    def state(self, round: int) -> Arrays:
        """Return what the rounds before `round` left behind; {} if nothing did."""
        kept = [number for number in self._rounds() if number < round]
        return (_read(self._state(max(kept))) if kept else None) or {}

    def keep_state(self, round: int, state: Arrays) -> None:
        """Keep the state after `round`, and the one before it."""
        if not state and not self._rounds():
            return
        self._write(self._state(round), **state)
        newest_before = max((number for number in self._rounds() if number < round), default=NEVER)
        for number in self._rounds():
            if number not in (round, newest_before):
                self._state(number).unlink(missing_ok=True)

    def forget_old_runs(self) -> None:
        """Delete what runs of long ago left on this node's disk: folders that hold a model of ours, and no others."""
        oldest = time.time() - KEPT_DAYS * 86400
        for other in self.folder.parent.glob("*"):
            ours = RUN_NAME.fullmatch(other.name) and (other / MODEL).is_file()
            if ours and other != self.folder and other.stat().st_mtime < oldest:
                shutil.rmtree(other, ignore_errors=True)

    def _state(self, round: int) -> Path:
        return self.folder / f"state-{round}.npz"

    def _rounds(self) -> list[int]:
        names = (path.stem.partition("-")[2] for path in self.folder.glob("state-*.npz"))
        return [int(name) for name in names if name.isdigit()]

    def _write(self, path: Path, **arrays: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with draft_of(path).open("wb") as file:
            np.savez(file, **arrays)
        draft_of(path).replace(path)


def file_name(text: str) -> str:
    """Return text as the name of a file or folder."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in text) or "_"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
