"""A run as it goes, for a terminal: accuracy over time, what every client does, bytes and incidents."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from adagq.report.progress import ClientNow, Progress, Row, progress
from adagq.report.units import bytes_text, percent, seconds_text

BARS: Final = "▁▂▃▄▅▆▇█"
WIDTH: Final = 60  # of the curve, in letters
INCIDENTS_SHOWN: Final = 5
PARTS: Final = ("download", "compute", "upload", "waiting")
STYLES: Final = {
    "computing": "yellow",
    "sending": "cyan",
    "waiting": "green",
    "lost": "red",
    "late": "red",
    "failed": "red",
}


def view(run_dir: Path) -> RenderableType:
    """Return what is known of the run now."""
    now = progress(run_dir)
    if not now.rows and now.under_way is None:
        return Text(f"{run_dir}: no round has closed yet")
    parts: list[RenderableType] = [Text(head(now), style="bold")]
    if now.rows:
        parts.append(Text(_curve(now.rows), style="cyan"))
    parts.append(_clients(now.clients))
    if now.incidents:
        lines = [incident_text(one) for one in now.incidents[-INCIDENTS_SHOWN:]]
        parts.append(Text("\n".join(lines), style="red", overflow="ellipsis", no_wrap=True))
    return Group(*parts)


def head(now: Progress) -> str:
    """Return in two lines where the run is."""
    under_way = "" if now.under_way is None else f", round {now.under_way} under way"
    under_way += ", paused" if now.paused else ""
    if not now.rows:
        return f"{now.run_dir}{under_way}"
    last = now.rows[-1]
    up, down = (bytes_text(sum(row[f"{way}_bytes"] for row in now.rows)) for way in ("upload", "download"))
    return (
        f"{now.run_dir}: {last['method']}, seed {last['seed']}, round {last['round']} closed{under_way}\n"
        f"accuracy {percent(last['accuracy'])} after {seconds_text(last['seconds'])}, "
        f"last round {seconds_text(last['round_seconds'])}, {up} up, {down} down"
    )


def incident_text(one: Row) -> str:
    """Return one incident in a line."""
    return f"round {one['round']}, client {one['client']}, {one['kind']}: {one['reason']}"


def cells_of(client: ClientNow) -> list[str]:
    """Return what a client did last: round, seconds of every part, bytes up, levels."""
    line = client.line
    if line is None:
        return ["–"] * (len(PARTS) + 3)
    seconds = [f"{line[f'{part}_seconds']:.1f}" for part in PARTS]
    return [str(line["round"]), *seconds, bytes_text(line["upload_bytes"]), f"{line.get('levels') or 0:g}"]


COLUMNS: Final = ("round", *(f"{part} s" for part in PARTS), "up", "levels", "incidents")  # of `cells_of`, and a count


def state_text(client: ClientNow) -> str:
    """Return what a client does now and for how long."""
    return "–" if client.state is None else f"{client.state} {seconds_text(client.seconds)}"


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


def _clients(clients: Sequence[ClientNow]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    for name in ("client", "now"):
        table.add_column(name, no_wrap=True)
    for name in COLUMNS:
        heading = name.replace("download", "down-load").replace("incidents", "inci-dents")
        table.add_column(heading.replace("-", "-\n").replace(" ", "\n"), justify="right", no_wrap=True)
    for one in clients:
        state = Text(state_text(one), style=STYLES.get(one.state or "", ""))
        table.add_row(f"{one.client} {escape(one.name)}".strip(), state, *cells_of(one), str(one.incidents or ""))
    return table
