"""A run as it goes, read from its files: what every client does now, what it did last, what went wrong.

What happens inside a round is in `status.json`, which only real nodes have; everything else is of the last closed
round. Nothing is written.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from adagq.core.errors import CheckpointError
from adagq.core.jsonl import read_lines
from adagq.experiments.pausing import is_paused

TAIL_BYTES: Final = 1 << 18  # that are read from the end of files with a line per client
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ClientNow:
    """One client: its state and since when (None in a simulation), and its line of the last round it was in."""

    client: str
    name: str
    state: str | None
    seconds: float
    line: Row | None
    incidents: int


@dataclass(frozen=True)
class Progress:
    """The run that wrote the last row; `under_way` is the round that its nodes are in."""

    run_dir: Path
    rows: list[Row]
    clients: list[ClientNow]
    incidents: list[Row]
    under_way: int | None
    paused: bool


def progress(run_dir: Path) -> Progress:
    """Return what is known of the run now."""
    if not run_dir.is_dir():
        raise CheckpointError(f"{run_dir} is not a run directory: there is no such folder")
    rows, status = list(read_lines(run_dir / "rows.jsonl")), _status(run_dir)
    run = _run_of(rows[-1]) if rows else None
    ledger = [line for line in _tail(run_dir / "ledger.jsonl") if _run_of(line) == run]
    incidents = [line for line in _tail(run_dir / "incidents.jsonl") if _run_of(line) == run]
    return Progress(
        run_dir=run_dir,
        rows=[row for row in rows if _run_of(row) == run],
        clients=_clients(ledger, {} if status is None else status["nodes"], incidents),
        incidents=incidents,
        under_way=None if status is None else status["round"],
        paused=is_paused(run_dir),
    )


def _clients(ledger: list[Row], nodes: Row, incidents: list[Row]) -> list[ClientNow]:
    latest, now = {str(line["client"]): line for line in ledger}, time.time()
    clients = []
    for client in sorted(latest.keys() | nodes.keys(), key=int):
        node, count = nodes.get(client), sum(str(one["client"]) == client for one in incidents)
        name, state, since = (node["name"], node["state"], node["since"]) if node else ("", None, now)
        clients.append(ClientNow(client, name, state, max(now - since, 0.0), latest.get(client), count))
    return clients


def _run_of(row: Row) -> tuple[Any, Any]:
    return row.get("method"), row.get("seed")


def _status(run_dir: Path) -> Row | None:
    try:
        status: Row = json.loads((run_dir / "status.json").read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return status


def _tail(path: Path) -> list[Row]:
    """Return the last objects of a file that may be large; a first line that was cut is left out."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - TAIL_BYTES, 0))
        lines = file.read().split(b"\n")
    whole = lines[:-1] if size <= TAIL_BYTES else lines[1:-1]
    return [json.loads(line) for line in whole if line.strip()]
