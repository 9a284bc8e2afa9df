"""The cells of an exhibit: finished runs, and what is not there yet.

A cell is read as far as it is finished. Runs (a method with a seed) that are still under way are left out and
named, so that half a run never looks like a method that missed its target. Where runs take turns (`turns`), the cell is
read at the highest milestone that as many methods have reached as any.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from adagq.core.errors import AdagqError
from adagq.experiments.config import Config, resolve
from adagq.experiments.runner import goals_of
from adagq.paper.paired import Paired, paired
from adagq.report.palette import REFERENCE
from adagq.report.run import Row, Run, load
from adagq.report.summary import Summary, by_seed, summarize

BASELINES = ("fedavg", "qsgd", "topk", "topk-plain", "fedpaq")  # the published ones
NOT_RUN = "not run"
# Quantities that are not columns of the summary, and the columns that they add up.
COLUMNS = {"gigabits": ("upload_bytes",), "communication_seconds": ("upload_seconds", "download_seconds")}
Number = float | None
Milestones = Mapping[str, Sequence[float]]  # cell -> accuracies at which its runs take turns


@dataclass(frozen=True)
class Cell:
    """What one cell of an exhibit holds; `summary` and `rows` are of finished runs only."""

    key: str
    rows: tuple[Row, ...] = ()
    summary: Summary | None = None
    methods: tuple[str, ...] = ()  # all that the settings name, finished or not
    seeds: int = 0
    absent: str = ""  # why there is nothing, empty if there is
    config: Config | None = None  # of the runs that are there
    under_way: tuple[Row, ...] = ()  # of the methods that have no finished run yet

    def record(self, method: str) -> Mapping[str, Any] | None:
        """Return a method's part of the summary; None where it has not run."""
        found: Mapping[str, Any] | None = self.summary["methods"].get(method) if self.summary else None
        return found

    def quantity(self, method: str, name: str) -> Number:
        """Return a mean over the seeds that reached the target; `accuracy` is that of the last round of all."""
        values = self.per_seed(method, name)
        return fmean(values.values()) if values else None

    def compare(self, method: str, rival: str, name: str = "seconds") -> Paired | None:
        """Return the quotient of the two means, over the seeds that both have; None if there is none."""
        return paired(self.per_seed(method, name), self.per_seed(rival, name))

    def ratio(self, method: str, rival: str, name: str = "seconds") -> Number:
        """Return the quotient alone."""
        compared = self.compare(method, rival, name)
        return compared.ratio if compared else None

    def per_seed(self, method: str, name: str) -> dict[str, float]:
        """Return a quantity by seed, of the seeds that reached the target."""
        record = self.record(method) or {"per_seed": {}}
        seeds = {seed: own for seed, own in record["per_seed"].items() if own["reached"] or name == "accuracy"}
        every = {seed: [own[column] for column in COLUMNS.get(name, (name,))] for seed, own in seeds.items()}
        scale = 8e-9 if name == "gigabits" else 1.0
        return {seed: scale * sum(values) for seed, values in every.items() if None not in values}

    def fastest_baseline(self) -> str | None:
        """Return the published baseline that needed the least time and reached the target with every seed."""
        times = {
            name: float(record["seconds"]["mean"])
            for name in BASELINES
            if (record := self.record(name)) is not None and record["reached"] == 1
        }
        return min(times, key=times.__getitem__, default=None)


def read_cells(
    wanted: Mapping[str, Any], directories: Mapping[str, Path], milestones: Milestones | None = None
) -> dict[str, Cell]:
    """Return the cells that the paper has, in its order, then those that it has not."""
    keys = dict.fromkeys((*wanted, *directories))
    absent = {key: Cell(key, absent=NOT_RUN) for key in keys}
    read = {key: read_cell(key, path, (milestones or {}).get(key, ())) for key, path in directories.items()}
    return absent | read


def read_cell(key: str, directory: Path, milestones: Sequence[float] = ()) -> Cell:
    """Read a run directory; one that is missing, empty or unreadable gives a cell that says so."""
    if not (directory / "rows.jsonl").is_file():
        return Cell(key, absent=NOT_RUN)
    try:
        cells = read_targets(key, directory, milestones)
    except AdagqError as error:
        return Cell(key, absent=f"cannot be read: {error}")
    highest_first = reversed(cells.values())
    return max(highest_first, key=lambda cell: len({(row["method"], row["seed"]) for row in cell.rows}))


def read_targets(key: str, directory: Path, milestones: Sequence[float]) -> dict[float, Cell]:
    """Read a run directory as it looks at each milestone and, last, at its own target."""
    run = load(directory)
    config = resolve(tomllib.loads(run.config_text), directory)
    targets = sorted({*milestones, config.training.target})
    return {target: _cell_at(key, run, config, target) for target in targets if target <= config.training.target}


def _cell_at(key: str, run: Run, config: Config, target: float) -> Cell:
    config = config.model_copy(update={"training": config.training.model_copy(update={"target": target})})
    methods = tuple(dict.fromkeys((*config.methods, REFERENCE)))
    kept = _finished(run.rows, config)
    if not kept:
        return Cell(key, methods=methods, seeds=config.seeds, absent=f"{NOT_RUN}: no method is finished")
    summary = summarize(
        kept,
        target,
        payload_scale=config.payload_scale,
        task=run.facts.get("task", ""),
        fleet=run.facts.get("fleet", ""),
        clients=run.facts.get("clients") or run.clients,
    )
    under_way = tuple(row for row in run.rows if row["method"] not in summary["methods"])
    return Cell(key, tuple(kept), summary, methods, config.seeds, config=config, under_way=under_way)


def _finished(rows: Sequence[Row], config: Config) -> list[Row]:
    """Return the rows of the seeds that every method has finished or, where there is no such seed, every method begun.

    Means over different seeds would compare different fleets and clients. Where there is no such seed either, all that
    is finished counts.
    """
    goals = goals_of(config, config.methods)
    done = {
        (method, seed): run
        for method, seeds in by_seed(rows).items()
        for seed, run in seeds.items()
        if method in goals and goals[method].met(run)
    }
    seeds = {seed for _, seed in done}
    begun = {method for method, _ in done}
    whole = {seed for seed in seeds if all((method, seed) in done for method in config.methods)}
    common = {seed for seed in seeds if all((method, seed) in done for method in begun)}
    return [row for (_, seed), run in done.items() if seed in (whole or common or seeds) for row in run]
