"""The leaderboard's standings: places with confidence, and the page.

Rows are in order of the mean time to the target, plain ones and those with the board's optimizer (`row+nesterov`) in
one list; those that missed it with a seed come after those that did not. Places
are known as far as the seeds can tell: `first` is one more than the rows that are surely faster, `last` leaves room for
the rows that are surely slower. Surely: the ratio of two rows' times with the same seeds differs from 1 by a paired
t-test of its logarithm at 95 %, or one reached the target with all of at least two seeds and the other with none.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from adagq.benchmarks.leaderboard import Record, name_of
from adagq.core.atomic import replacing
from adagq.core.errors import ConfigError

PAGE: Final = "leaderboard.md"
MOST: Final = 10  # rows of a fleet's table where the page is one among others
BEGIN, END = "<!-- leaderboard: begin -->", "<!-- leaderboard: end -->"
# Two-sided 95 % of Student's t by degrees of freedom; beyond the table that of the last one, which is a little larger.
T95: Final = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True, slots=True)
class Standing:
    """One row on one fleet; means over its seeds, of those that reached the target if any did."""

    method: str
    seconds: Mapping[int, float]  # by seed, of those that reached the target
    seeds: int
    mean_seconds: float
    std_seconds: float
    rounds: float
    upload_bytes: float
    download_bytes: float
    state_bytes: float
    best_accuracy: float
    first: int = 0  # the places that it may have
    last: int = 0

    @property
    def reached(self) -> int:
        return len(self.seconds)


Board = dict[tuple[str, str], list[Standing]]  # (task, fleet)


def standings(records: Iterable[Record], reference: str = "ideal") -> Board:
    """Return the standings of every fleet, in order of time; the reference has no place."""
    cells: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in records:
        cells.setdefault((record["task"], record["fleet"]), {}).setdefault(name_of(record), []).append(record)
    return {key: _placed([_standing(*item) for item in rows.items()], reference) for key, rows in cells.items()}


def surely_faster(one: Standing, other: Standing) -> bool:
    """Whether `one` is faster than `other` beyond the luck of its seeds.

    >>> row = lambda *times: Standing("", dict(enumerate(times)), 3, 0, 0, 0, 0, 0, 0, 0)
    >>> surely_faster(row(10.0, 12.0, 9.0), row(15.0, 18.0, 14.0)), surely_faster(row(10.0, 12.0), row(11.0, 11.0))
    (True, False)
    """
    if one.seeds >= 2 <= other.seeds and one.reached == one.seeds and not other.reached:
        return True
    common = one.seconds.keys() & other.seconds.keys()
    ratios = [math.log(other.seconds[seed] / one.seconds[seed]) for seed in sorted(common)]
    if len(ratios) < 2 or (mean := statistics.fmean(ratios)) <= 0.0:
        return False
    spread = statistics.stdev(ratios) / math.sqrt(len(ratios))
    return mean > T95[min(len(ratios) - 1, len(T95) - 1)] * spread


def _standing(method: str, runs: Sequence[Record]) -> Standing:
    counted = [run for run in runs if run["reached"]] or list(runs)
    seconds = [run["seconds"] for run in counted]

    def mean(name: str, of: Sequence[Record] = counted) -> float:
        return statistics.fmean(run[name] for run in of)

    return Standing(
        method=method,
        seconds={run["seed"]: run["seconds"] for run in runs if run["reached"]},
        seeds=len(runs),
        mean_seconds=mean("seconds"),
        std_seconds=statistics.stdev(seconds) if len(seconds) > 1 else 0.0,
        rounds=mean("rounds"),
        upload_bytes=mean("upload_bytes"),
        download_bytes=mean("download_bytes"),
        state_bytes=mean("state_bytes"),
        best_accuracy=mean("best_accuracy", runs),
    )


def _placed(rows: list[Standing], reference: str) -> list[Standing]:
    order = sorted(rows, key=lambda row: (row.method == reference, -row.reached / row.seeds, row.mean_seconds))
    ranked = [row for row in order if row.method != reference]
    placed = []
    for row in ranked:
        first = 1 + sum(surely_faster(other, row) for other in ranked)
        last = len(ranked) - sum(surely_faster(row, other) for other in ranked)
        placed.append(replace(row, first=first, last=max(first, last)))
    return placed + order[len(ranked) :]


def minutes(row: Standing | None) -> str:
    """Return the time to the target in minutes, or how far a row came without it."""
    if row is None:
        return "–"
    if not row.reached:
        return f"missed ({row.best_accuracy:.0%})"
    time = f"{row.mean_seconds / 60:.1f}" + (f" ± {row.std_seconds / 60:.1f}" if row.reached > 1 else "")
    return time if row.reached == row.seeds else f"{time} ({row.reached} of {row.seeds})"


def table_of(rows: Sequence[Standing]) -> list[str]:
    """Return one fleet's standings as lines of a Markdown table."""
    lines = [
        "| places | row | minutes | seeds | rounds | MB up | MB down | state, MB |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        places = "–" if not row.first else str(row.first) if row.first == row.last else f"{row.first}–{row.last}"
        data = " | ".join(f"{n / 1e6:.3g}" for n in (row.upload_bytes, row.download_bytes, row.state_bytes))
        lines.append(f"| {places} | `{row.method}` | {minutes(row)} | {row.seeds} | {row.rounds:.0f} | {data} |")
    return lines


def overview_of(board: Board, task: str) -> list[str]:
    """Return all rows of a task over its fleets, in order of the first fleet's time: plain / with each suffix.

    Bold is the fastest of each fleet.
    """
    fleets = [fleet for one, fleet in board if one == task]
    found = {fleet: {row.method: row for row in board[task, fleet]} for fleet in fleets}
    names = list(dict.fromkeys(row.method.split("+")[0] for fleet in fleets for row in board[task, fleet]))
    suffixes = sorted(
        {method.removeprefix(method.split("+")[0]) for rows in found.values() for method in rows}, key=len
    )
    lines = [f"| row | {' | '.join(fleets)} |", "| --- |" + " ---: |" * len(fleets)]
    for name in names:
        cells = []
        for fleet in fleets:
            forms = [found[fleet].get(name + suffix) for suffix in suffixes]
            best = board[task, fleet][0].method
            cells.append(" / ".join(_short(row, best) for row in forms if row is not None) or "–")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def _short(row: Standing, best: str) -> str:
    text = f"{row.mean_seconds / 60:.1f}" if row.reached else "missed"
    text += f" ({row.reached} of {row.seeds})" if 0 < row.reached < row.seeds else ""
    return f"**{text}**" if row.method == best else text


def page_of(board: Board, targets: Mapping[str, float], most: int | None = None) -> list[str]:
    """Return the page: an overview of every task, then the standings of every fleet, the first `most` rows of them."""
    lines = []
    for task in dict.fromkeys(task for task, _ in board):
        seeds = [row.seeds for key, rows in board.items() if key[0] == task for row in rows]
        span = str(min(seeds)) if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
        lines += [f"### {task}: minutes to {targets.get(task, 0.0):.0%} accuracy, {span} seeds", ""]
        lines += [*overview_of(board, task), ""]
        for (one, fleet), rows in board.items():
            if one == task:
                lines += [f"#### {task}, {fleet}", "", *table_of(rows[:most]), ""]
    return lines


def write_page(lines: Sequence[str], path: Path) -> Path:
    """Write the page, or the part of an existing one between its two marks."""
    text = "\n".join(lines)
    if path.is_file() and BEGIN in (before := path.read_text("utf-8")):
        head, _, rest = before.partition(BEGIN)
        if END not in rest:
            raise ConfigError(f"{path}: {BEGIN} without {END}")
        text = f"{head}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}"
    else:
        text = f"# Leaderboard\n\n{text}"
    with replacing(path) as file:
        file.write(text.encode())
    return path
