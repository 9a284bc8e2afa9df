"""A run directory: what is in it, and how it is written.

    config.toml      the resolved settings
    rows.jsonl       one line per method, seed and round
    ledger.jsonl     one line per method, seed, round and client
    incidents.jsonl  one line per client that did not deliver, or whose delivery could not be used
    exchanges.jsonl  one line per message, of deployments alone
    audit.jsonl      one line per round, chained: what clients were asked for, incidents, digests of the files above
    checkpoint.npz   the last closed round, for `--resume`

docs/architecture.md has the columns. A directory that holds anything is never written to, unless it is resumed, and
one process at a time writes to it. A resumed directory may be asked for more methods and seeds than it was begun with,
and may have lost its checkpoint: then the runs that are at their end are kept, and the others begin anew. What was
changed since the checkpoint was written is found before anything is touched. docs/reliability.md says what is promised.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from adagq.core.atomic import is_draft, refusal, replacing, sync_folder
from adagq.core.errors import CheckpointError, OutputError
from adagq.core.jsonl import encoded_lines, read_lines
from adagq.experiments.audit import kept_record, last_hash, round_record
from adagq.experiments.checkpoint import Checkpoint, load, save
from adagq.experiments.row_files import (
    AUDIT,
    EXCHANGES,
    INCIDENTS,
    LEDGER,
    REMEDY,
    ROWS,
    RowFiles,
    check_marks,
    cut_back,
)
from adagq.experiments.settings_diff import settings_diff
from adagq.methods.table import Method
from adagq.rounds.backend import Backend
from adagq.rounds.state import RoundResult, State

__all__ = ["CHECKPOINT", "CONFIG", "ROWS", "RunDirectory"]
CONFIG, CHECKPOINT = "config.toml", "checkpoint.npz"
Row = Mapping[str, Any]
# From the settings and rows of a directory: which (method, seed) are at their end; None if they are of other runs.
Whole = Callable[[str, Sequence[Row]], Collection[tuple[str, int]] | None]
Same = Callable[[str], bool]  # whether the settings of a directory, as TOML, mean the same as those that are asked for


class RunDirectory:
    """Claimed when it is opened, filled from the first round on; row files only grow, whole lines at a time.

    A second process that opens the directory is refused until this one ends, in any way. A directory in
    which no round was closed is taken away again.
    """

    def __init__(
        self,
        path: Path,
        config: str,
        resume: bool = False,
        whole: Whole | None = None,
        same: Same | None = None,
        exchanges: bool = False,
    ) -> None:
        self._path = path
        self._more = (EXCHANGES,) if exchanges else ()
        self._config = config
        self._whole = whole
        self._same = same
        self._settings = hashlib.sha256(config.encode()).hexdigest()
        self._files: RowFiles | None = None
        self._last_hash = ""  # of the audit log
        self._saved: Checkpoint | None = None
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

    def restore(self, method: Method, seed: int, backend: Backend) -> State | None:
        """Return the state of this run if it is the one that was under way, and set the backend to it."""
        saved = self._saved
        if saved is None or (saved.method, saved.seed) != (method.name, seed):
            return None
        backend.restore(saved.backend)
        return saved.restore(method, backend.layout)

    def append(self, result: RoundResult, backend: Backend, exchanges: Iterable[Row] = ()) -> None:
        """Write a round: ledger, row, checkpoint. A kill in between is repaired by `--resume`.

        The checkpoint says how long the other files are, so they are brought to the disk before it.
        """
        try:
            files = self._files or self._create()
            files.check_there()
            if self._more:
                files.append(EXCHANGES, exchanges)
            for name, rows in ((INCIDENTS, result.incidents), (LEDGER, result.ledger), (ROWS, [result.row])):
                files.append(name, rows)
            record = round_record(result, files.marks(), self._last_hash)
            files.append(AUDIT, [record])
            files.sync()
            run = {
                "settings": self._settings,
                "method": result.row["method"],
                "seed": result.row["seed"],
                "marks": files.marks(),
            }
            save(self._checkpoint, run, result.state, backend.checkpoint())
            self._last_hash = record["hash"]
        except (OSError, OutputError) as error:
            reason = refusal(self._path, error) if isinstance(error, OSError) else error
            raise OutputError(f"{reason}, then continue with --resume --out {self._path}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._files is not None:
            self._files.close()
        self._take_away()
        os.close(self._lock)

    @property
    def _checkpoint(self) -> Path:
        return self._path / CHECKPOINT

    def _create(self) -> RowFiles:
        config = self._path / CONFIG
        if not config.exists():
            with replacing(config) as file:
                file.write(self._config.encode())
        self._files = RowFiles(self._path, self._more)
        self._last_hash = last_hash(self._path)
        return self._files

    def _take_up(self) -> None:
        """Open what a killed run left, cut back to its last checkpoint, or without one to the runs that are whole."""
        config = self._path / CONFIG
        try:
            stored = config.read_text("utf-8") if config.is_file() else ""
        except UnicodeDecodeError:
            raise CheckpointError(f"{config}: damaged, not UTF-8 text; {REMEDY}") from None
        saved = load(self._checkpoint)
        if saved is not None:
            self._check_damage(saved, stored)
            if self._same is not None and self._same(stored):  # perhaps as a release with fewer settings wrote them
                self._config, self._settings = stored, saved.settings
        try:
            if saved is not None and stored == self._config:
                self._saved = saved
                cut_back(self._path, saved.marks)
                self._create()
            else:
                self._keep_whole_runs(stored)
        except OSError as error:
            raise refusal(self._path, error) from None
        self._past = list(read_lines(self._path / ROWS))

    def _check_damage(self, saved: Checkpoint, stored: str) -> None:
        """CheckpointError if the settings or the rows are not those that the checkpoint was written with."""
        if saved.settings != hashlib.sha256(stored.encode()).hexdigest():
            if saved.settings == self._settings:
                difference = settings_diff(stored, self._config) if stored else "it is missing"
                raise CheckpointError(f"{self._path / CONFIG}: changed since the checkpoint ({difference}); {REMEDY}")
            raise CheckpointError(f"{self._checkpoint}: belongs to a run with other settings than {CONFIG} has")
        check_marks(self._path, saved.marks)

    def _keep_whole_runs(self, stored: str) -> None:
        """Leave what the runs wrote that are at their end; a kill in between is repaired by the next `--resume`."""
        rows = list(read_lines(self._path / ROWS))
        kept: Collection[tuple[str, int]] | None = None
        if stored == self._config and len(rows) <= 1:
            kept = ()  # killed before the first checkpoint
        elif stored and self._whole is not None:
            kept = self._whole(stored, rows)
        if kept is None:
            same = stored == self._config
            difference = settings_diff(stored, self._config)
            other = f"is not a run with these settings: {difference}" if stored else "is not a run directory"
            reason = f"has rows but no {self._checkpoint.name}" if same else other
            raise CheckpointError(f"{self._path}: {reason}, so it cannot be continued")
        self._checkpoint.unlink(missing_ok=True)
        sync_folder(self._path)
        for path in (
            self._path / name for name in (*self._more, LEDGER, INCIDENTS, ROWS)
        ):  # rows last: they say what is whole
            with replacing(path) as file:
                file.write(encoded_lines(row for row in read_lines(path) if _run_of(row) in kept))
        with replacing(self._path / CONFIG) as file:
            file.write(self._config.encode())
        self._cut_audit(empty=not kept)
        files = self._create()
        if kept:
            record = kept_record(list(kept), files.marks(), self._last_hash)
            files.append(AUDIT, [record])
            self._last_hash = record["hash"]

    def _cut_audit(self, empty: bool) -> None:
        """Drop a line that a killed process left half written, or all lines of a run that begins anew."""
        path = self._path / AUDIT
        if path.is_file():
            whole = 0 if empty else path.read_bytes().rfind(b"\n") + 1
            os.truncate(path, whole)

    def _take_away(self) -> None:
        """Remove the folders that were made for nothing."""
        with suppress(OSError):  # not empty, which is as it should be
            for folder in self._made:
                folder.rmdir()


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
