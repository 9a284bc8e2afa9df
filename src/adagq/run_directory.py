"""A run directory: what is in it, and how it is written.

    config.toml      the resolved settings
    rows.jsonl       one line per method, seed and round
    ledger.jsonl     one line per method, seed, round and client
    checkpoint.npz   the last closed round, for `--resume`

docs/architecture.md has the columns. A directory that holds anything is never written to, unless it is resumed.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from adagq import checkpoint as checkpoints
from adagq.errors import CheckpointError
from adagq.methods import Method
from adagq.rounds import Closed, State
from adagq.vectors import Layout

ROWS, LEDGER = "rows.jsonl", "ledger.jsonl"


class Restorable(Protocol):
    """A backend that can be left and taken up again."""

    @property
    def layout(self) -> Layout: ...

    def checkpoint(self) -> checkpoints.Arrays: ...

    def restore(self, saved: checkpoints.Arrays) -> None: ...


class RunDirectory:
    """Appears with its first round; row files only grow, whole lines at a time."""

    def __init__(self, path: Path, config: str, resume: bool = False) -> None:
        self._path = path
        self._config = config
        self._settings = hashlib.sha256(config.encode()).hexdigest()
        self._files: dict[str, int] = {}
        self._saved: checkpoints.Checkpoint | None = None
        self._past: list[dict[str, Any]] = []
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return
        if not resume:
            raise CheckpointError(
                f"{path} is there already; nothing was written. Choose another --out, or continue it with --resume"
            )
        self._take_up()

    def past(self, method: Method, seed: int) -> list[Mapping[str, Any]]:
        """Return the rows of this run that were there when the directory was opened."""
        return [row for row in self._past if (row["method"], row["seed"]) == (method.name, seed)]

    def restore(self, method: Method, seed: int, backend: Restorable) -> State | None:
        """Return the state of this run if it is the one that was under way, and set the backend to it."""
        saved = self._saved
        if saved is None or (saved.method, saved.seed) != (method.name, seed):
            return None
        backend.restore(saved.backend)
        return saved.restore(method, backend.layout)

    def append(self, closed: Closed, backend: Restorable) -> None:
        """Write a round: ledger, row, checkpoint. A kill in between is repaired by `--resume`."""
        try:
            if not self._files:
                self._create()
            self._write(LEDGER, closed.ledger)
            self._write(ROWS, [closed.row])
            run = {
                "settings": self._settings,
                "method": closed.row["method"],
                "seed": closed.row["seed"],
                "sizes": {name: os.fstat(file).st_size for name, file in self._files.items()},
            }
            checkpoints.save(self._checkpoint, run, closed.state, backend.checkpoint())
        except OSError as error:
            raise CheckpointError(f"{self._path}: cannot be written ({error.strerror})") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            os.close(file)

    @property
    def _checkpoint(self) -> Path:
        return self._path / "checkpoint.npz"

    def _create(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        (self._path / "config.toml").write_text(self._config, "utf-8")
        for name in (ROWS, LEDGER):
            self._files[name] = os.open(self._path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _take_up(self) -> None:
        """Open what a killed run left, cut back to its last checkpoint."""
        config = self._path / "config.toml"
        if not config.is_file() or config.read_text("utf-8") != self._config:
            raise CheckpointError(f"{self._path}: is not a run with these settings, so it cannot be continued")
        self._saved = checkpoints.load(self._checkpoint, self._settings)
        sizes = {ROWS: 0, LEDGER: 0} if self._saved is None else self._saved.sizes
        self._create()
        for name, file in self._files.items():
            if os.fstat(file).st_size < sizes[name]:
                raise CheckpointError(f"{self._path / name}: shorter than its checkpoint says; it was changed")
            os.ftruncate(file, sizes[name])
        lines = (self._path / ROWS).read_text("utf-8").splitlines()
        self._past = [json.loads(line) for line in lines]

    def _write(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write whole lines in one piece (one system call, unless the disk is full)."""
        text = "".join(json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n" for row in rows)
        data = text.encode()
        while data:
            data = data[os.write(self._files[name], data) :]
