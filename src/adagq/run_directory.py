"""A run directory: what is in it, and how it is written.

    config.toml      the resolved settings
    rows.jsonl       one line per method, seed and round
    ledger.jsonl     one line per method, seed, round and client
    incidents.jsonl  one line per client that did not deliver, or whose delivery could not be used
    checkpoint.npz   the last closed round, for `--resume`

docs/architecture.md has the columns. A directory that holds anything is never written to, unless it is resumed, and
one process at a time writes to it. A resumed directory may be asked for more methods and seeds than it was begun with,
and may have lost its checkpoint: then the runs that are at their end are kept, and the others begin anew.
docs/reliability.md says what is promised.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self

from adagq import checkpoint as checkpoints
from adagq.drafts import is_draft, refusal, replacing, sync_folder
from adagq.errors import CheckpointError, OutputError
from adagq.federation import Closed, State
from adagq.methods import Method
from adagq.vectors import Layout

CONFIG, ROWS, LEDGER, INCIDENTS = "config.toml", "rows.jsonl", "ledger.jsonl", "incidents.jsonl"
Row = Mapping[str, Any]
# From the settings and rows of a directory: which (method, seed) are at their end; None if they are of other runs.
Whole = Callable[[str, Sequence[Row]], Collection[tuple[str, int]] | None]


class Restorable(Protocol):
    """A backend that can be left and taken up again."""

    @property
    def layout(self) -> Layout: ...

    def checkpoint(self) -> checkpoints.Arrays: ...

    def restore(self, saved: checkpoints.Arrays) -> None: ...


class RunDirectory:
    """Claimed when it is opened, filled from the first round on; row files only grow, whole lines at a time.

    A second process that opens the directory is refused until this one leaves it, by whatever death. A directory in
    which no round was closed is taken away again.
    """

    def __init__(self, path: Path, config: str, resume: bool = False, whole: Whole | None = None) -> None:
        self._path = path
        self._config = config
        self._whole = whole
        self._settings = hashlib.sha256(config.encode()).hexdigest()
        self._files: dict[str, int] = {}
        self._saved: checkpoints.Checkpoint | None = None
        self._past: list[Row] = []
        if not resume:
            _check_vacant(path)
        self._made = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock_folder(path)
        except OSError as error:
            self._take_away()
            raise refusal(path, error) from None
        try:
            if not resume:
                _check_vacant(path)  # again: another run may have come and gone until the lock was ours
            elif not _vacant(path):
                self._take_up()
        except BaseException:
            self.__exit__()
            raise

    def past(self, method: Method, seed: int) -> list[Row]:
        """Return the rows of this run that were there when the directory was opened."""
        return [row for row in self._past if _run_of(row) == (method.name, seed)]

    def restore(self, method: Method, seed: int, backend: Restorable) -> State | None:
        """Return the state of this run if it is the one that was under way, and set the backend to it."""
        saved = self._saved
        if saved is None or (saved.method, saved.seed) != (method.name, seed):
            return None
        backend.restore(saved.backend)
        return saved.restore(method, backend.layout)

    def append(self, closed: Closed, backend: Restorable) -> None:
        """Write a round: ledger, row, checkpoint. A kill in between is repaired by `--resume`.

        The checkpoint says how long the other files are, so they are brought to the disk before it.
        """
        try:
            if not self._files:
                self._create()
            self._write(INCIDENTS, closed.incidents)
            self._write(LEDGER, closed.ledger)
            self._write(ROWS, [closed.row])
            for file in self._files.values():
                os.fsync(file)
            run = {
                "settings": self._settings,
                "method": closed.row["method"],
                "seed": closed.row["seed"],
                "sizes": {name: os.fstat(file).st_size for name, file in self._files.items()},
            }
            checkpoints.save(self._checkpoint, run, closed.state, backend.checkpoint())
        except (OSError, OutputError) as error:
            told = refusal(self._path, error) if isinstance(error, OSError) else error
            raise OutputError(f"{told}, then continue with --resume --out {self._path}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            os.close(file)
        self._take_away()
        os.close(self._lock)

    @property
    def _checkpoint(self) -> Path:
        return self._path / "checkpoint.npz"

    def _create(self) -> None:
        config = self._path / CONFIG
        if not config.exists():
            with replacing(config) as file:
                file.write(self._config.encode())
        for name in (ROWS, LEDGER, INCIDENTS):
            self._files[name] = os.open(self._path / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _take_up(self) -> None:
        """Open what a killed run left, cut back to its last checkpoint, or without one to the runs that are whole."""
        config = self._path / CONFIG
        stored = config.read_text("utf-8") if config.is_file() else ""
        if stored == self._config:
            self._saved = checkpoints.load(self._checkpoint, self._settings)
        try:
            if self._saved is None:
                self._keep_whole_runs(stored)
            self._create()
            if self._saved is not None:
                self._cut_back(self._saved.sizes)
        except OSError as error:
            raise refusal(self._path, error) from None
        self._past = read_rows(self._path / ROWS)

    def _cut_back(self, sizes: Mapping[str, int]) -> None:
        for name, file in self._files.items():
            if os.fstat(file).st_size < sizes[name]:
                raise CheckpointError(f"{self._path / name}: shorter than its checkpoint says; it was changed")
        for name, file in self._files.items():
            os.ftruncate(file, sizes[name])

    def _keep_whole_runs(self, stored: str) -> None:
        """Leave what the runs wrote that are at their end; a kill in between is repaired by the next `--resume`."""
        rows = read_rows(self._path / ROWS)
        kept: Collection[tuple[str, int]] | None = None
        if stored == self._config and len(rows) <= 1:
            kept = ()  # killed before the first checkpoint
        elif stored and self._whole is not None:
            kept = self._whole(stored, rows)
        if kept is None:
            same = stored == self._config
            reason = f"has rows but no {self._checkpoint.name}" if same else "is not a run with these settings"
            raise CheckpointError(f"{self._path}: {reason}, so it cannot be continued")
        self._checkpoint.unlink(missing_ok=True)
        sync_folder(self._path)
        for path in (self._path / name for name in (LEDGER, INCIDENTS, ROWS)):  # rows last: they say what is whole
            with replacing(path) as file:
                file.writelines(line for line in _lines(path) if _run_of(json.loads(line)) in kept)
        with replacing(self._path / CONFIG) as file:
            file.write(self._config.encode())

    def _write(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write whole lines in one piece (one system call, unless the disk is full: then not at all)."""
        text = "".join(json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n" for row in rows)
        data, file = text.encode(), self._files[name]
        size = os.fstat(file).st_size
        try:
            while data:
                data = data[os.write(file, data) :]
        except OSError:
            os.ftruncate(file, size)
            raise

    def _take_away(self) -> None:
        """Remove the folders that were made for nothing."""
        with suppress(OSError):  # not empty, which is as it should be
            for folder in self._made:
                folder.rmdir()


def _lines(path: Path) -> list[bytes]:
    """Return the whole lines of a file, none if it is not there."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [line for line in lines if line.endswith(b"\n")]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file; a line that a kill cut short is none."""
    return [json.loads(line) for line in _lines(path)]


def _run_of(row: Row) -> tuple[str, int]:
    return row["method"], row["seed"]


def _check_vacant(path: Path) -> None:
    if not _vacant(path):
        raise CheckpointError(
            f"{path} is there already; nothing was written. Choose another --out, or continue it with --resume"
        )


def _vacant(path: Path) -> bool:
    """Whether there is nothing that a run could overwrite."""
    return not path.exists() or (path.is_dir() and all(map(is_draft, path.iterdir())))


def _lock_folder(path: Path) -> int:
    """Return a descriptor that keeps other runs out until it is closed or this process ends."""
    while True:
        folder = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(folder)
            reason = "another run is writing there; wait for its end or choose another --out"
            raise CheckpointError(f"{path}: {reason}") from None
        except OSError:
            return folder  # a file system that cannot lock folders, such as some network drives
        if path.exists() and os.path.samestat(path.stat(), os.fstat(folder)):
            return folder
        os.close(folder)  # its owner has taken it away in between
        path.mkdir(parents=True, exist_ok=True)
