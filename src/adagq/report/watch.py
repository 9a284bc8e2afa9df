"""A run as it goes: accuracy over time, what every client does, bytes and incidents, for a terminal.

Reads the files of a run directory, of a simulation or of a deployment, and writes nothing. What happens inside a round
is in `status.json`, which only real nodes have; everything else is of the last closed round.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from adagq.core.errors import CheckpointError
from adagq.core.jsonl import read_lines
from adagq.experiments.pausing import is_paused
from adagq.report.units import bytes_text, percent, seconds_text

BARS: Final = "▁▂▃▄▅▆▇█"
WIDTH: Final = 60  # of the curve, in letters
TAIL_BYTES: Final = 1 << 18  # that are read from the end of files with a line per client
INCIDENTS_SHOWN: Final = 5
PARTS: Final = ("download", "compute", "upload", "waiting")
STYLES: Final = {"working": "yellow", "waiting": "green", "lost": "red", "late": "red", "failed": "red"}
Row = Mapping[str, Any]


def view(run_dir: Path) -> RenderableType:
    """Return what is known of the run now."""
    if not run_dir.is_dir():
        raise CheckpointError(f"{run_dir} is not a run directory: there is no such folder")
    rows, status = list(read_lines(run_dir / "rows.jsonl")), _status(run_dir)
    if not rows and status is None:
        return Text(f"{run_dir}: no round has closed yet")
    last = rows[-1] if rows else {}
    mine = [row for row in rows if _run_of(row) == _run_of(last)]
    ledger = [line for line in _tail(run_dir / "ledger.jsonl") if _run_of(line) == _run_of(last)]
    incidents = [line for line in _tail(run_dir / "incidents.jsonl") if _run_of(line) == _run_of(last)]
    parts: list[RenderableType] = [_head(run_dir, mine, status)]
    if mine:
        parts.append(Text(_curve(mine), style="cyan"))
    parts.append(_clients(ledger, status, incidents))
    if incidents:
        parts.append(_incidents(incidents))
    return Group(*parts)


def _head(run_dir: Path, rows: Sequence[Row], status: Row | None) -> Text:
    under_way = "" if status is None else f", round {status['round']} under way"
    under_way += ", paused" if is_paused(run_dir) else ""
    if not rows:
        return Text(f"{run_dir}{under_way}", style="bold")
    last = rows[-1]
    sent = " ".join(f"{bytes_text(sum(row[key] for row in rows))} {way}" for key, way in _WAYS.items())
    text = (
        f"{run_dir}: {last['method']}, seed {last['seed']}, round {last['round']} closed{under_way}\n"
        f"accuracy {percent(last['accuracy'])} after {seconds_text(last['seconds'])}, "
        f"last round {seconds_text(last['round_seconds'])}, {sent}"
    )
    return Text(text, style="bold")


_WAYS: Final = {"upload_bytes": "up,", "download_bytes": "down"}


def _curve(rows: Sequence[Row]) -> str:
    """Return accuracy over time as a line of bars, from 0 to 100 %; a bar shows the model of its second.

    >>> _curve([{"seconds": 1.0, "accuracy": 0.0}, {"seconds": 2.0, "accuracy": 1.0}])[-1]
    '█'
    """
    end, bars, index = rows[-1]["seconds"], [], -1
    for column in range(1, WIDTH + 1):
        while index + 1 < len(rows) and rows[index + 1]["seconds"] <= end * column / WIDTH:
            index += 1
        accuracy = rows[index]["accuracy"] if index >= 0 else None
        bars.append(" " if accuracy is None else BARS[min(int(accuracy * len(BARS)), len(BARS) - 1)])
    return "".join(bars)


def _clients(ledger: Sequence[Row], status: Row | None, incidents: Sequence[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("client", "now"):
        table.add_column(name, no_wrap=True)
    for name in ("round", *(f"{part} s" for part in PARTS), "up", "incidents"):
        table.add_column(name, justify="right")
    latest = {str(line["client"]): line for line in ledger}
    nodes = {} if status is None else status["nodes"]
    for client in sorted(latest.keys() | nodes.keys(), key=int):
        line, node = latest.get(client), nodes.get(client)
        cells = ["–"] * 6
        if line is not None:
            seconds = [f"{line[f'{part}_seconds']:.1f}" for part in PARTS]
            cells = [str(line["round"]), *seconds, bytes_text(line["upload_bytes"])]
        count = sum(str(one["client"]) == client for one in incidents)
        name = client if node is None else f"{client} {escape(node['name'])}"
        table.add_row(name, _state(node), *cells, str(count or ""))
    return table


def _state(node: Row | None) -> Text:
    if node is None:
        return Text("–")
    seconds = max(time.time() - node["since"], 0.0)
    return Text(f"{node['state']} {seconds_text(seconds)}", style=STYLES.get(node["state"], ""))


def _incidents(incidents: Sequence[Row]) -> Text:
    lines = [
        f"round {one['round']}, client {one['client']}, {one['kind']}: {one['reason']}"
        for one in incidents[-INCIDENTS_SHOWN:]
    ]
    return Text("\n".join(lines), style="red", overflow="ellipsis", no_wrap=True)


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
