"""What a script calls: `adagq.compare` and `adagq.train`, from settings to a `Result`.

    result = adagq.compare(methods=["fedavg", "adagq-fit"], seeds=2, training={"target": 0.9})
    result.rows, result.summary, result.table(), result.plot("accuracy.svg")

Settings are those that `adagq config` lists: keywords on top of a settings file, a mapping or a `Config`, and these on
top of the defaults.
"""

import dataclasses
import inspect
import logging
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

from adagq.client.learner import Population
from adagq.core.errors import ConfigError, DivergedError
from adagq.core.jsonl import read_lines
from adagq.core.modules import check_not_importing, reference_to
from adagq.experiments.config import Config, merged, on_defaults, read_toml, resolve, to_toml
from adagq.experiments.run_directory import ROWS
from adagq.experiments.runner import compared, run, runs_left
from adagq.report.facts import OWN_TASK
from adagq.report.result import Result

ConfigLike = Config | Mapping[str, Any] | Path | str | None
OnRound = Callable[[Mapping[str, Any]], object]
Diverged = dict[tuple[str, int], int]  # (method, seed) -> the round that brought no number
TABLES: Final = ("training", "fleet")
RISEN: Final = 10.0  # times the first model's loss: no training that works ends there
logger = logging.getLogger("adagq")


class Settings(TypedDict, total=False):
    """Top-level keys of the settings; `adagq config` lists every key with its meaning."""

    seed: int
    seeds: int
    method: str
    methods: Sequence[str]
    variants: Mapping[str, Any]
    payload_scale: float
    training: Any  # a mapping, or a `Training`
    task: Any  # a mapping; of your own: a function that returns a `Population`, its name, or a `Population`
    fleet: Any  # a mapping, a `FleetConfig`, or the path of a TOML file


def compare(
    config: ConfigLike = None,
    *,
    out: Path | str | None = None,
    workers: int | str | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    **settings: Unpack[Settings],
) -> Result:
    """Run several methods to the same target; rounds, bytes and virtual time of each are in the result.

    Parameters
    ----------
    config : Config, mapping, path or None
        The settings to start from; None: the defaults, digits on the paper's fleet.
    out : path or None
        The run directory; None: a temporary one that lives as long as the result.
    workers : int, str or None
        Worker processes; None: this process alone; "ray" or "ray://host:port": a Ray cluster. A script that asks for
        several keeps its call under `if __name__ == "__main__":`.
    resume : bool
        Continue the run in `out`.
    on_round : callable or None
        Called with each row as its round closes; `adagq.report.trackers` has loggers.
    **settings
        Top-level keys: methods, seeds, training, task, fleet, …; tables are merged key by key. `task` may be a
        function that returns a population of your own model and data, or its name ("my.py:build"); or a population
        itself, which runs in one process.
    """
    check_not_importing("adagq.compare")
    resolved, population = _configured(config, settings)
    return _run(compared(resolved), population, out, workers, resume, on_round)


def train(
    config: ConfigLike = None,
    *,
    out: Path | str | None = None,
    workers: int | str | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    **settings: Unpack[Settings],
) -> Result:
    """Run one method (`method`, adagq-fit by default) to its target; see `compare` for the parameters."""
    check_not_importing("adagq.train")
    resolved, population = _configured(config, settings)
    single = resolved.model_copy(update={"methods": (resolved.method,)})
    return _run(single, population, out, workers, resume, on_round)


def diverged_runs(config: Config, out: Path) -> Diverged:
    """Return the round in which each run diverged that ended before its end."""
    rounds: Diverged = {}
    for row in read_lines(out / ROWS):
        rounds[row["method"], row["seed"]] = row["round"]
    return {key: rounds.get(key, 0) + 1 for key in sorted(runs_left(config, out))}


def divergence_text(config: Config, diverged: Diverged) -> str:
    """Return in words which runs diverged, when, and what to try."""
    runs = ", ".join(f"{method} (seed {seed}) in round {round}" for (method, seed), round in diverged.items())
    rate = config.training.learning_rate
    return f"diverged: {runs}: learning rate too high? (training.learning_rate = {rate:g})"


def warn_of_rising_loss(config: Config, out: Path) -> None:
    """Log which runs ended with a far larger loss than the first model had: diverged, though every number is finite."""
    runs: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in read_lines(out / ROWS):
        runs.setdefault((row["method"], row["seed"]), []).append(row)
    for (method, seed), rows in runs.items():
        first, last = rows[0].get("train_loss"), rows[-1].get("loss")
        if first and last and last > RISEN * first:
            risen = f"{method} (seed {seed}): the loss rose from {first:.3g} to {last:.3g}"
            rate = config.training.learning_rate
            logger.warning("%s: learning rate too high? (training.learning_rate = %g)", risen, rate)


def _run(
    config: Config,
    population: Population | None,
    out: Path | str | None,
    workers: int | str | None,
    resume: bool,
    on_round: OnRound | None,
) -> Result:
    workers = 1 if workers is None else workers
    if isinstance(workers, int) and workers < 1:
        raise ConfigError(f"workers = {workers}: must be at least 1")
    if population is not None and workers != 1:
        raise ConfigError(f"workers = {workers}: a population of your own runs in one process, workers = 1")
    keep = tempfile.TemporaryDirectory(prefix="adagq-") if out is None else None
    directory = Path(keep.name) / "run" if keep else Path(out or "")
    try:
        for step in run(config, directory, workers, resume, population=population):
            if on_round is not None:
                on_round(step.row)
    finally:
        getattr(on_round, "close", lambda: None)()  # a tracker ends its last run
    diverged = diverged_runs(config, directory)
    if diverged and not (directory / ROWS).is_file():
        raise DivergedError(divergence_text(config, diverged))
    warn_of_rising_loss(config, directory)
    return Result(directory, diverged, keep)


def _configured(config: ConfigLike, settings: Mapping[str, Any]) -> tuple[Config, Population | None]:
    """Return the checked settings, and the population where the task is one."""
    folder = Path(config).parent if isinstance(config, str | Path) else Path()
    changes = {key: _table(value) if key in TABLES else value for key, value in settings.items()}
    population = changes.get("task") if _is_population(changes.get("task")) else None
    if population is not None:
        changes["task"] = {"data": OWN_TASK, "model": OWN_TASK, "clients": population.clients}
    elif inspect.isroutine(changes.get("task")):
        changes["task"] = reference_to(changes["task"])
    elif "task" in changes:
        changes["task"] = _table(changes["task"])
    if isinstance(config, Config):
        return resolve(merged(tomllib.loads(to_toml(config)), changes), folder), population
    given = read_toml(Path(config)) if isinstance(config, str | Path) else config or {}
    return resolve(on_defaults(merged(given, changes)), folder), population


def _is_population(task: Any) -> bool:
    return hasattr(task, "learner") and hasattr(task, "evaluate")


def _table(value: Any) -> Any:
    """Return a settings object as a plain table without keys that have no value; anything else as it is."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {key: part for key, part in dataclasses.asdict(value).items() if part is not None}
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value
