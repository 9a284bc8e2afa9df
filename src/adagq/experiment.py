"""Config -> run directory: every method with every seed, a line per round, written as it happens.

`run_directory` has the files; `report` makes the rest from them. `simulate` is one run of your own model and data,
in this process and without files.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any, Final

from adagq import fleet as fleets
from adagq.backends.processes import open_pool
from adagq.backends.remembered import Remembered
from adagq.backends.simulated import Simulated
from adagq.client import Population
from adagq.config import Config, Training, resolve, to_toml
from adagq.control import Fixed
from adagq.errors import ConfigError
from adagq.federation import Schedule
from adagq.methods import Method, method_of
from adagq.rounds import federate
from adagq.run_directory import CONFIG, ROWS, RunDirectory, read_rows

Row = Mapping[str, Any]
GROWS: Final = ("method", "methods", "seed", "seeds", "variants")  # what a resumed directory may be asked more of
REFERENCE = "ideal"  # what the communication tax is measured against


@dataclass(frozen=True, slots=True)
class Step:
    """A round has closed and is written down."""

    method: Method
    seed: int
    row: Row
    cell: str = ""  # of a reproduction


def compared(config: Config) -> Config:
    """Return the settings of a comparison: the reference of the tax is always among its methods."""
    return config.model_copy(update={"methods": tuple(dict.fromkeys((*config.methods, REFERENCE)))})


def run(
    config: Config, out: Path, workers: int = 1, resume: bool = False, memory: Path | None = None
) -> Iterator[Step]:
    """Run `config.methods` with every seed into the directory `out`; yield after each round.

    With `resume` a directory that a killed run left is continued where its last round closed; it may be asked for more
    methods and seeds than before. Methods that adapt to nothing train once for all runs that share a `memory` folder
    and differ in their fleets alone.
    """
    methods = [config.row(name) for name in config.methods]
    whole = partial(whole_runs, config)
    with RunDirectory(out, to_toml(config), resume, whole) as directory, open_pool(workers) as pool:
        for seed in range(config.seed, config.seed + config.seeds):
            open_runs = [method for method in methods if not finished(config.training, directory.past(method, seed))]
            if not open_runs:
                continue
            task = replace(config.task, seed=seed)
            fleet = fleets.build(config.fleet, seed)
            population = task.build()
            remembering = pool if memory is None else Remembered(pool, memory)
            remembering.prepare(task, population.layout)
            schedule = _schedule(config.training, fleet, seed)
            for method in open_runs:
                used = remembering if isinstance(method.controller, Fixed) else pool
                backend = Simulated(used, population, fleet, method, seed, config.payload_scale)
                state = directory.restore(method, seed, backend)
                rows = directory.past(method, seed)
                for closed in federate(method, backend, schedule, state):
                    directory.append(closed, backend)
                    rows = telling(config.training, [*rows, closed.row])
                    yield Step(method, seed, closed.row)
                    if finished(config.training, rows):
                        break


def simulate(
    population: Population,
    method: str | Method = "adagq-fit",
    fleet: fleets.FleetConfig | None = None,
    training: Training | None = None,
    seed: int = 0,
    payload_scale: float = 1.0,
) -> Iterator[Row]:
    """Train `population` with one method; yield a row per round, with the columns of rows.jsonl.

    `fleet` needs as many clients as the population has and is the paper's if not given. The run ends as `training`
    says, at its target or after `max_rounds`. See examples/own_model.py.
    """
    chosen = method_of(method) if isinstance(method, str) else method
    training = training or Training()
    built = fleets.build(fleet or fleets.paper(clients=population.clients), seed)
    if len(built) != population.clients:
        raise ConfigError(f"fleet.clients = {len(built)}: must be {population.clients}, as many as the population has")
    rows: list[Row] = []
    with open_pool(workers=1) as pool:
        pool.prepare(_Ready(population), population.layout)
        backend = Simulated(pool, population, built, chosen, seed, payload_scale)
        for closed in federate(chosen, backend, _schedule(training, built, seed)):
            rows = telling(training, [*rows, closed.row])
            yield closed.row
            if finished(training, rows):
                break


@dataclass(frozen=True)
class _Ready:
    """The recipe of a population that is there already."""

    population: Population

    def build(self) -> Population:
        return self.population


def finished(training: Training, rows: Sequence[Row]) -> bool:
    """Whether a run is `extra_rounds` past the target, or at `max_rounds` without it."""
    reached = next((row["round"] for row in rows if (row["accuracy"] or 0.0) >= training.target), None)
    last = training.max_rounds if reached is None else reached + training.extra_rounds
    return bool(rows) and rows[-1]["round"] >= last


def telling(training: Training, rows: Sequence[Row]) -> list[Row]:
    """Return the rows that say whether a run has finished: the first at the target, and the last."""
    first = (row for row in rows[:-1] if (row["accuracy"] or 0.0) >= training.target)
    return [*islice(first, 1), *rows[-1:]]


def runs_of(config: Config) -> set[tuple[str, int]]:
    """Return (method, seed) of every run."""
    return set(product(config.methods, range(config.seed, config.seed + config.seeds)))


def runs_left(config: Config, directory: Path) -> set[tuple[str, int]]:
    """Return the runs of these settings that are not at their end in a run directory, which need not be there."""
    asked, settings = runs_of(config), directory / CONFIG
    if not settings.is_file():
        return asked
    there = whole_runs(config, settings.read_text("utf-8"), read_rows(directory / ROWS))
    return asked if there is None else asked - there


def whole_runs(config: Config, stored: str, rows: Sequence[Row]) -> set[tuple[str, int]] | None:
    """Return (method, seed) of the runs in `rows` that are at their end.

    `stored` are the settings that the rows were made with, as TOML; None if `config` does not ask for the same runs,
    or for more methods and seeds of the same.
    """
    try:
        before = resolve(tomllib.loads(stored))
    except (ConfigError, tomllib.TOMLDecodeError):  # perhaps of another release
        return None
    alike = before.model_copy(update={name: getattr(config, name) for name in GROWS}) == config
    if not (alike and runs_of(before) <= runs_of(config) and before.variants.items() <= config.variants.items()):
        return None
    runs: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        runs.setdefault((row["method"], row["seed"]), []).append(row)
    return {key for key, its_rows in runs.items() if finished(config.training, its_rows)}


def _schedule(training: Training, fleet: fleets.Fleet, seed: int) -> Schedule:
    return Schedule(
        seed=seed,
        clients=len(fleet),
        participants=training.participants,
        learning_rate=training.learning_rate,
        decay=training.decay,
        joins={client: member.join_round for client, member in enumerate(fleet.clients)},
        exchanges=training.exchanges,
        deadline_seconds=training.deadline_seconds,
        deadline_factor=training.deadline_factor,
        min_updates=training.min_updates,
        norm_bound=training.norm_bound,
        weight_bound=training.weight_bound,
    )
