"""A run directory as the report reads it: config, rows, and of the ledger only what is drawn.

    config.toml     resolved settings           (optional: a report can be rebuilt from rows and a target)
    rows.jsonl      one row per method, seed and round
    ledger.jsonl    one row per client and round (optional: without it there are no heat maps and timelines)
    summary.json    the facts of the run, written by `summarize`

The row schemas are in docs/architecture.md; `core.jsonl` says what happens to torn and damaged lines.
"""

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.core.errors import CheckpointError
from adagq.core.jsonl import read_lines
from adagq.report.facts import run_facts

Row = Mapping[str, Any]
Floats = NDArray[np.float64]
LEDGER_COLUMNS = (
    "round",
    "client",
    "levels",
    "upload_bytes",
    "download_bytes",
    "download_seconds",
    "compute_seconds",
    "upload_seconds",
    "waiting_seconds",
)


@dataclass(frozen=True)
class Run:
    """What a run left behind. `ledger` holds, for each method, the columns of its first seed."""

    directory: Path
    rows: list[Row]
    ledger: dict[str, dict[str, Floats]]
    ledger_seed: int | None
    clients: int | None  # distinct clients in the ledger
    config_text: str
    facts: dict[str, Any]  # see `run_facts`


def load(run_dir: Path | str) -> Run:
    """Read a run directory; CheckpointError if it holds no rows or a damaged file."""
    directory = Path(run_dir)
    path = directory / "rows.jsonl"
    if not path.is_file():
        raise CheckpointError(f"{directory} is not a run directory: it has no rows.jsonl")
    rows: list[Row] = list(read_lines(path))
    if not rows:
        raise CheckpointError(f"{path} holds no rows yet: no round was finished")
    try:
        seed = min(int(row["seed"]) for row in rows)
        for row in rows:
            _ = row["method"], row["round"], row["seconds"]
    except KeyError as missing:
        raise CheckpointError(f"{path}: a row lacks the key {missing}") from None
    ledger, clients = _read_ledger(directory / "ledger.jsonl", seed)
    config = directory / "config.toml"
    config_text = config.read_text(encoding="utf-8") if config.is_file() else ""
    return Run(directory, rows, ledger, seed, clients, config_text, run_facts(directory, config_text))


def number(value: Any) -> float | None:
    """A finite float, or None for null, NaN and infinity: the ways in which a row says "unknown"."""
    if value is None:
        return None
    result = float(value)
    return result if math.isfinite(result) else None


def _read_ledger(path: Path, seed: int) -> tuple[dict[str, dict[str, Floats]], int | None]:
    flat: dict[str, array[float]] = {}  # row after row: a ledger may hold millions
    clients: set[int] = set()
    for row in read_lines(path):
        clients.add(int(row["client"]))
        if row["seed"] != seed:
            continue
        values = (number(row.get(name)) for name in LEDGER_COLUMNS)
        numbers = flat.setdefault(row["method"], array("d"))
        numbers.extend(math.nan if value is None else value for value in values)
    tables = {name: np.array(numbers).reshape(-1, len(LEDGER_COLUMNS)) for name, numbers in flat.items()}
    ledger = {
        method: {name: table[:, place] for place, name in enumerate(LEDGER_COLUMNS)} for method, table in tables.items()
    }
    return ledger, len(clients) or None
