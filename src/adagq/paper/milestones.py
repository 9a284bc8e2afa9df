"""How long every method took to each milestone, as far as runs that take turns have come."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from adagq.core.jsonl import read_lines
from adagq.experiments.run_directory import ROWS
from adagq.paper.cells import Cell, Number, read_targets
from adagq.report.summary import by_seed
from adagq.report.units import digits, percent

NOT_YET = "not yet"


@dataclass(frozen=True)
class Reached:
    """One method at one milestone: means over the seeds that got there, and the time over that of `ideal`."""

    target: float
    seconds: Number = None
    rounds: Number = None
    tax: Number = None
    seeds: int = 0
    ended: bool = False  # the run is at its end without it

    @property
    def text(self) -> str:
        if self.seconds is None or self.rounds is None:
            return "missed" if self.ended else NOT_YET
        return f"{digits(self.seconds)} s ({self.rounds:g})"


@dataclass(frozen=True)
class Progress:
    """One method of a cell: how far its runs have come, and what it took to each milestone."""

    cell: str
    method: str
    rounds: tuple[int, ...]  # closed, by seed
    best_accuracy: float
    reached: tuple[Reached, ...]

    @property
    def so_far(self) -> str:
        if not self.rounds:
            return "not begun"
        return f"{percent(self.best_accuracy)} after {', '.join(map(str, self.rounds))}"


def read_progress(key: str, directory: Path, milestones: Sequence[float]) -> list[Progress]:
    """Return all methods of a cell, in the order of the settings."""
    cells = read_targets(key, directory, milestones)
    runs = by_seed(read_lines(directory / ROWS))
    methods = next(iter(cells.values())).methods if cells else ()
    return [
        Progress(
            key,
            method,
            tuple(len(rows) for rows in runs.get(method, {}).values()),
            max((row["accuracy"] or 0.0 for rows in runs.get(method, {}).values() for row in rows), default=0.0),
            tuple(_reached(method, target, cell) for target, cell in cells.items()),
        )
        for method in methods
    ]


def _reached(method: str, target: float, cell: Cell) -> Reached:
    record = cell.record(method)
    if record is None:
        return Reached(target)
    seconds, rounds = (cell.quantity(method, name) for name in ("seconds", "rounds"))
    seeds = sum(own["reached"] for own in record["per_seed"].values())
    return Reached(target, seconds, rounds, record["tax"]["mean"], seeds, ended=True)


def progress_lines(every: Sequence[Progress]) -> list[str]:
    """Return a GitHub table for the page of an exhibit; nothing if no runs take turns."""
    if not every:
        return []
    headings = _headings(every)
    rows = [headings, ("---", "---", *("---:" for _ in headings[2:])), *map(_texts, every)]
    return ["", "## Time to each milestone", "", *(f"| {' | '.join(row)} |" for row in rows), "", *_legend(every)]


def progress_table(every: Sequence[Progress], title: str) -> Table:
    """Return the same for the terminal."""
    table = Table(*_headings(every), title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for one in every:
        table.add_row(*_texts(one))
    table.caption = " ".join(_legend(every))
    return table


def progress_json(every: Sequence[Progress]) -> list[Mapping[str, Any]]:
    return [asdict(one) for one in every]


def _headings(every: Sequence[Progress]) -> tuple[str, ...]:
    return "method", "so far (rounds)", *(percent(one.target) for one in every[0].reached)


def _texts(one: Progress) -> tuple[str, ...]:
    return one.method, one.so_far, *(reached.text if one.rounds else "" for reached in one.reached)


def _legend(every: Sequence[Progress]) -> list[str]:
    most = max(reached.seeds for one in every for reached in one.reached)
    seeds = f"{most} seed{'s' if most != 1 else ''}"
    return [f'Virtual seconds to the accuracy and, in brackets, rounds; at most {seeds}. "{NOT_YET}": still training.']
