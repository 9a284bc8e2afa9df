"""JSON lines: the files of a run that only grow, one object a line.

    append_lines(path, rows)          # whole lines, in one piece
    for row in read_lines(path): …    # one at a time: a ledger may hold millions

A last line without its newline is what a killed writer left: it is dropped. Any other line that is not a JSON object is
an error that names file and line, because a reader must not silently leave rounds out.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from adagq.core.errors import CheckpointError


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every object of the file; a file that is not there has none."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            if line.strip():
                yield _object(path, number, line)


def encoded_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the rows as lines; NaN and infinity are refused, since JSON has none.

    >>> encoded_lines([{"round": 1, "loss": None}])
    b'{"round":1,"loss":null}\\n'
    """
    return b"".join(json.dumps(row, separators=(",", ":"), allow_nan=False).encode() + b"\n" for row in rows)


def append_lines(file: Path | int, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write whole lines at the end of a path or an open descriptor: all of them, or none if the disk is full."""
    if isinstance(file, Path):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            append_lines(descriptor, rows)
        finally:
            os.close(descriptor)
        return
    data, size = encoded_lines(rows), os.fstat(file).st_size
    try:
        while data:
            data = data[os.write(file, data) :]
    except OSError:
        os.ftruncate(file, size)
        raise


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:  # not JSON, or not UTF-8
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "not UTF-8"
        raise CheckpointError(f"{path}, line {number}: not JSON ({reason})") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}, line {number}: not a JSON object")
    return value
