"""The leaderboard: every row of the table on several fleets, in order of the time to the target.

    <out>/<fleet>/              a run directory, as `adagq compare` leaves it
    <out>/<fleet>-<rounds>/     the rows with another limit of rounds
    <out>/leaderboard.md        the tables of all fleets that have rows

Rows, seeds and fleets come from leaderboard.toml. Runs that are at their end are left alone: the same command goes on
where it was interrupted, and takes more rows and seeds.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from adagq.core.atomic import replacing
from adagq.core.errors import ConfigError
from adagq.core.jsonl import read_lines
from adagq.core.registry import suggestion
from adagq.experiments.config import Config, merged, on_defaults, resolve
from adagq.experiments.run_directory import CONFIG, ROWS
from adagq.experiments.runner import REFERENCE, Step, run, runs_left
from adagq.report.summary import Summary, shown, summarize

BOARD: Final = files("adagq.benchmarks") / "leaderboard.toml"
PAGE: Final = "leaderboard.md"
COLUMNS: Final = "| rank | row | minutes to the target | seeds that reached it | rounds | MB up | MB down |"


@dataclass(frozen=True)
class Part:
    """One run directory of the board: a fleet, and the rows with one limit of rounds."""

    fleet: str
    folder: str
    config: Config


def load(
    fleets: Sequence[str] = (), methods: Sequence[str] = (), settings: Mapping[str, Any] | None = None
) -> list[Part]:
    """Return the parts of the board; all fleets and rows unless some are named, `settings` on top of the board's.

    >>> [part.folder for part in load(fleets=["paper"])]
    ['paper', 'paper-2400']
    """
    board = tomllib.loads(BOARD.read_text("utf-8"))
    for name in fleets:
        if name not in board["fleets"]:
            known = ", ".join(board["fleets"])
            raise ConfigError(f"unknown fleet {name!r}: {suggestion(name, board['fleets'])} Known: {known}")
    limits: Mapping[str, int] = board["max_rounds"]
    rows = sorted(dict.fromkeys((*(methods or board["methods"]), REFERENCE)), key=lambda name: limits.get(name, 0))
    parts = []
    for fleet in fleets or board["fleets"]:
        tree = merged(merged(board["settings"], {"fleet": board["fleets"][fleet]}), settings or {})
        for limit, group in groupby(rows, key=lambda name: limits.get(name, 0)):
            own = merged(tree, {"training": {"max_rounds": limit}}) if limit else tree
            config = resolve(on_defaults(own | {"methods": list(group)}))
            parts.append(Part(fleet, f"{fleet}-{limit}" if limit else fleet, config))
    return parts


def left(parts: Sequence[Part], out: Path) -> int:
    """Return how many runs are not at their end."""
    return sum(len(runs_left(part.config, out / part.folder)) for part in parts)


def play(parts: Sequence[Part], out: Path, workers: int | str = 1) -> Iterator[Step]:
    """Run what is left into `out`; yield after each round."""
    for part in parts:
        directory = out / part.folder
        if runs_left(part.config, directory):
            begun = (directory / CONFIG).is_file()
            for step in run(part.config, directory, workers, resume=begun):
                yield replace(step, cell=part.fleet)


def standings(parts: Sequence[Part], out: Path) -> dict[str, Summary]:
    """Return the summary of every fleet that has rows, its methods in order of time."""
    found: dict[str, Summary] = {}
    for fleet, group in groupby(parts, key=lambda part: part.fleet):
        own = list(group)
        rows = [row for part in own for row in read_lines(out / part.folder / ROWS)]
        if rows:
            config = own[0].config
            found[fleet] = summarize(rows, config.training.target, clients=config.task.clients)
    return found


def table_of(summary: Summary) -> list[str]:
    """Return one fleet's standings as lines of a Markdown table; a row that missed shows what it spent in vain."""
    lines = [COLUMNS, "| ---: | --- | ---: | ---: | ---: | ---: | ---: |"]
    for rank, (name, record) in enumerate(summary["methods"].items(), start=1):
        spent, seeds = shown(record), len(record["per_seed"])
        minutes = spent["seconds"]["mean"] / 60
        deviation = spent["seconds"]["std"] / 60
        time = f"{minutes:.1f} ± {deviation:.1f}" if record["reached"] else f"not in {minutes:.1f}"
        data = " | ".join(f"{spent[key]['mean'] / 1e6:.3g}" for key in ("upload_bytes", "download_bytes"))
        place = "–" if name == summary["run"]["reference"] else str(rank)
        reached = f"{round(record['reached'] * seeds)} of {seeds}"
        lines.append(f"| {place} | {name} | {time} | {reached} | {spent['rounds']['mean']:.0f} | {data} |")
    return lines


def write_page(found: Mapping[str, Summary], out: Path) -> Path:
    """Write the tables of all fleets to `<out>/leaderboard.md`."""
    lines = ["# Leaderboard", ""]
    for fleet, summary in found.items():
        target, seeds = summary["run"]["target"], ", ".join(map(str, summary["run"]["seeds"]))
        lines += [f"## {fleet}: until {target:.0%} accuracy, seeds {seeds}; MB are per client", ""]
        lines += [*table_of(summary), ""]
    with replacing(out / PAGE) as file:
        file.write("\n".join(lines).encode())
    return out / PAGE
