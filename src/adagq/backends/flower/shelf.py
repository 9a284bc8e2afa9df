"""What a node keeps on its disk between messages: its copy of the model, and what its codec lost.

Every message is a new process on the node, and Flower ships its own state back and forth with each; so the model
stays here and only its version and path are in Flower's state. Files are replaced in one step. They are not forced
to the platter: a copy that a crash left torn or old is told by its digest, and the server sends the model again.

The residual of the round before is kept as well: a server that was killed may ask for the same round again, and what
its first answer left behind belongs to an update that nobody added.
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from adagq.client import Copy
from adagq.drafts import draft_of
from adagq.vectors import FloatVector

NEVER = 0  # round of no residual


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
class Shelf:
    """One node's folder of one run."""

    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "model.npz"

    def copy(self) -> Copy | None:
        """Return the model that is kept here; None if there is none that can be read."""
        try:
            with np.load(self.model, allow_pickle=False) as file:
                return Copy.first(int(file["version"]), file["vector"], file["buffers"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def keep(self, copy: Copy) -> None:
        self._write(self.model, version=np.array(copy.version), vector=copy.vector, buffers=copy.buffers)

    def residual(self, round: int) -> FloatVector | None:
        """Return what the rounds before `round` left behind."""
        kept = [number for number in self._rounds() if number < round]
        if not kept:
            return None
        try:
            with np.load(self._residual(max(kept)), allow_pickle=False) as file:
                residual: FloatVector = file["residual"]
                return residual
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def keep_residual(self, round: int, residual: FloatVector) -> None:
        self._write(self._residual(round), residual=residual)
        newest_before = max((number for number in self._rounds() if number < round), default=NEVER)
        for number in self._rounds():
            if number not in (round, newest_before):
                self._residual(number).unlink(missing_ok=True)

    def _residual(self, round: int) -> Path:
        return self.folder / f"residual-{round}.npz"

    def _rounds(self) -> list[int]:
        return [int(path.stem.partition("-")[2]) for path in self.folder.glob("residual-*.npz")]

    def _write(self, path: Path, **arrays: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with draft_of(path).open("wb") as file:
            np.savez(file, **arrays)
        draft_of(path).replace(path)
