"""audit.jsonl: what a run decided and what went wrong, a line a round, each chained to the one before.

    {"method": …, "seed": …, "round": …,
     "decisions": [[client, codec, byte budget or null, epochs], …],      what each client was asked for
     "incidents": [[client, kind, reason], …],
     "files": {"rows.jsonl": [bytes, sha256], …},                        the run's other files after this round
     "previous": the hash of the line before,
     "hash": the SHA-256 of all the above}

Who changes, removes or inserts a line breaks the chain; who changes a row breaks the digest of its round. `adagq
verify` checks both. Somebody who may write to the folder can make a new chain: note the last hash elsewhere, then
`adagq verify RUN --hash HASH` finds that too. A line with "kept" in place of a round says that the run went on without
its checkpoint: files were cut to the runs named there, and lines before it are held by the chain alone.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from adagq.core.errors import CheckpointError
from adagq.core.jsonl import read_lines
from adagq.experiments.row_files import AUDIT, CHUNK, GROWING, Mark
from adagq.rounds.state import RoundResult

BEGIN: Final = "0" * 64  # before the first line
AUDITED: Final = tuple(name for name in GROWING if name != AUDIT)  # of every run; others as the log names them
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit log says, once its chain was found whole."""

    records: tuple[Record, ...]
    last_hash: str

    @property
    def rounds(self) -> int:
        return sum("round" in record for record in self.records)


def round_record(result: RoundResult, marks: Mapping[str, Mark], previous: str) -> Record:
    """Return the line of a closed round."""
    run = {name: result.row[name] for name in ("method", "seed", "round")}
    incidents = [[line["client"], line["kind"], line["reason"]] for line in result.incidents]
    decisions = [list(decision) for decision in result.decisions]
    return _chained(run | {"decisions": decisions, "incidents": incidents}, marks, previous)


def kept_record(runs: Sequence[tuple[str, int]], marks: Mapping[str, Mark], previous: str) -> Record:
    """Return the line that says that only these runs were kept."""
    return _chained({"kept": [list(run) for run in sorted(runs)]}, marks, previous)


def read_audit(folder: Path) -> Audit:
    """Return the log of a run directory; CheckpointError names the first line that breaks the chain."""
    path, previous, records = folder / AUDIT, BEGIN, []
    for number, record in enumerate(read_lines(path), start=1):
        if record.get("previous") != previous:
            raise CheckpointError(f"{path}, line {number}: does not follow the line before; one was changed or removed")
        if record.get("hash") != _hash(record):
            raise CheckpointError(f"{path}, line {number}: changed after it was written")
        previous = record["hash"]
        records.append(record)
    return Audit(tuple(records), previous)


def last_hash(folder: Path) -> str:
    """Return the hash that the next line follows; `read_audit` checks the chain."""
    last = BEGIN
    for record in read_lines(folder / AUDIT):
        last = str(record.get("hash"))
    return last


def check_files(folder: Path, audit: Audit) -> int:
    """Check a run's files against every round of its log; return the bytes after the last closed round.

    CheckpointError names the file and the round that was changed.
    """
    restarts = [index for index, record in enumerate(audit.records) if "kept" in record]
    records = audit.records[restarts[-1] if restarts else 0 :]
    names = {*AUDITED, *(name for record in records for name in record["files"])}
    return sum(_check_file(folder / name, records) for name in sorted(names))


def _check_file(path: Path, records: Sequence[Record]) -> int:
    digest, place = hashlib.sha256(), 0
    if not path.is_file():
        raise CheckpointError(f"{path}: missing")
    with path.open("rb") as file:
        for record in records:
            if path.name not in record["files"]:
                continue
            size, expected = record["files"][path.name]
            while place < size and (chunk := file.read(min(CHUNK, size - place))):
                digest.update(chunk)
                place += len(chunk)
            if place != size or digest.hexdigest() != expected:
                reason = "changed" if place == size else "cut short"
                raise CheckpointError(f"{path}: {reason}, first in {_where(record)}")
        return path.stat().st_size - place


def _where(record: Record) -> str:
    if "kept" in record:
        return "the runs that were kept"
    return f"round {record['round']} of {record['method']}, seed {record['seed']}"


def _chained(record: Record, marks: Mapping[str, Mark], previous: str) -> Record:
    files = {name: list(mark) for name, mark in marks.items() if name != AUDIT}
    whole = record | {"files": files, "previous": previous}
    return whole | {"hash": _hash(whole)}


def _hash(record: Record) -> str:
    body = {name: value for name, value in record.items() if name != "hash"}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
