"""Checks a run directory: the chain of its audit log, every round's digests, its checkpoint and its settings."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from adagq.core.errors import CheckpointError
from adagq.experiments.audit import check_files, read_audit
from adagq.experiments.checkpoint import load
from adagq.experiments.row_files import AUDIT, check_marks
from adagq.experiments.run_directory import CHECKPOINT, CONFIG


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found in order."""

    rounds: int
    last_hash: str
    unclosed_bytes: int  # of a round that was interrupted; `--resume` drops them
    checkpoint: bool


def verify(folder: Path, expected_hash: str = "") -> Verified:
    """Check a run directory and return what was checked; CheckpointError names the first thing that is wrong.

    `expected_hash` is the last hash as it was noted elsewhere: some line of the log has to end with it.
    """
    if not (folder / AUDIT).is_file():
        raise CheckpointError(f"{folder}: no {AUDIT}: not a run directory, or of a release before 0.2")
    audit = read_audit(folder)
    if expected_hash and expected_hash not in {record["hash"] for record in audit.records}:
        raise CheckpointError(f"{folder / AUDIT}: no line has the hash {expected_hash}: the log was made anew")
    unclosed = check_files(folder, audit)
    saved = load(folder / CHECKPOINT)
    if saved is not None:
        config = folder / CONFIG
        if not config.is_file() or hashlib.sha256(config.read_bytes()).hexdigest() != saved.settings:
            raise CheckpointError(f"{config}: not the settings that its checkpoint was written with")
        check_marks(folder, saved.marks)
    return Verified(audit.rounds, audit.last_hash, unclosed, saved is not None)
