"""An experiment whose runs take turns: every method to the first milestone, then every method to the next.

    <cell>/config.toml, rows.jsonl        all runs as far as they are: what exhibits and `adagq report` read
    <cell>/runs/<method>-seed-<seed>/     one run, a run directory of its own that goes on where it stopped

For scales that take days: whenever they are stopped, all methods have come about as far, and the rows say how long each
took to every accuracy that all have reached. A run that is at its end needs no checkpoint and loses it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from adagq.core.atomic import replacing
from adagq.core.errors import CheckpointError
from adagq.core.jsonl import encoded_lines, read_lines
from adagq.experiments.config import Config, to_toml
from adagq.experiments.run_directory import CHECKPOINT, CONFIG, ROWS
from adagq.experiments.runner import Step, goals_of, run

RUNS: Final = "runs"
Row = Mapping[str, Any]


def run_in_turns(
    config: Config,
    milestones: Sequence[float],
    cell: Path,
    workers: int | str = 1,
    resume: bool = False,
    only: Collection[str] = (),
) -> Iterator[Step]:
    """Run `config.methods` with every seed into `cell`, from milestone to milestone; yield after each round.

    `only` names the methods whose turn it is; the others stay as far as they are.
    """
    if not resume and (cell / RUNS).exists():
        raise CheckpointError(
            f"{cell} is there already; nothing was written. Choose another --out, or continue it with --resume"
        )
    goals = goals_of(config, config.methods)
    for method, seed, milestone in turns(config, milestones):
        alone = config.model_copy(update={"methods": (method,), "seed": seed, "seeds": 1})
        place = run_place(cell, method, seed)
        rows = list(read_lines(place / ROWS))
        if (only and method not in only) or goals[method].met(rows) or best_accuracy(rows) >= milestone:
            continue
        with closing(run(alone, place, workers, resume=True)) as steps:  # type: ignore[type-var]
            for step in steps:
                collect(config, cell)
                yield step
                if best_accuracy([step.row]) >= milestone:
                    break
        if goals[method].met(list(read_lines(place / ROWS))):
            (place / CHECKPOINT).unlink(missing_ok=True)


def turns(config: Config, milestones: Sequence[float]) -> Iterator[tuple[str, int, float]]:
    """Yield (method, seed, accuracy to get to): seed by seed, rows with a server optimizer after those without."""
    goals = [*(milestone for milestone in milestones if milestone < config.training.target), config.training.target]
    blocks = [[name for name in config.methods if ("+" in name) == suffixed] for suffixed in (False, True)]
    for seed in range(config.seed, config.seed + config.seeds):
        for block in blocks:
            for goal in goals:
                yield from ((method, seed, goal) for method in block)


def run_place(cell: Path, method: str, seed: int) -> Path:
    """Return the run directory of one method with one seed."""
    return cell / RUNS / f"{method}-seed-{seed}"


def collect(config: Config, cell: Path) -> None:
    """Write the rows of all runs into one file beside the settings, in the order of methods and seeds."""
    rows: list[Row] = []
    for seed in range(config.seed, config.seed + config.seeds):
        for method in config.methods:
            rows += read_lines(run_place(cell, method, seed) / ROWS)
    cell.mkdir(parents=True, exist_ok=True)
    for name, data in ((CONFIG, to_toml(config).encode()), (ROWS, encoded_lines(rows))):
        with replacing(cell / name) as file:
            file.write(data)


def best_accuracy(rows: Sequence[Row]) -> float:
    return max((row["accuracy"] or 0.0 for row in rows), default=0.0)
