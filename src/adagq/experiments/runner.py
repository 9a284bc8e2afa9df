"""Config -> run directory: every method with every seed, a line per round, written as it happens.

`run_directory` has the files; `report` makes the rest from them. `simulate` is one run of your own model and data,
in this process and without files.
"""

import logging
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

from adagq.client.learner import Population
from adagq.control import Fixed
from adagq.core.errors import ConfigError, DivergedError
from adagq.core.jsonl import read_lines
from adagq.experiments.config import Config, Training, resolve, to_toml
from adagq.experiments.run_directory import CONFIG, ROWS, RunDirectory
from adagq.methods.table import Method, method_of
from adagq.rounds import Goal, RoundResult, Schedule, drive
from adagq.rounds.loops import steps_of
from adagq.rounds.schedule import exchanges_of
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.cache import CachedPool
from adagq.simulation.processes import Workers, open_pool

Row = Mapping[str, Any]
GROWS: Final = ("method", "methods", "seed", "seeds", "variants")  # what a resumed directory may be asked more of
REFERENCE = "ideal"  # what the communication tax is measured against
logger = logging.getLogger("adagq")


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


def goal_of(training: Training, method: Method, clients: int) -> Goal:
    """Return when a run of this method ends; without a barrier `max_rounds` counts rounds' worth of updates."""
    places = training.participants or clients
    return Goal(training.target, steps_of(method, training.max_rounds, places), training.extra_rounds)


def schedule_of(training: Training, seed: int, exchange_seconds: float = 0.0, **changes: Any) -> Schedule:
    """Return the rounds' settings; `exchange_seconds` decides what `exchanges = "auto"` stands for."""
    names = Schedule.__dataclass_fields__.keys() & Training.model_fields.keys()
    given = {name: getattr(training, name) for name in names} | changes
    given["exchanges"] = exchanges_of(given["exchanges"], exchange_seconds)
    given["privacy"] = given["privacy"].calibrated(training.max_rounds)
    return Schedule(seed=seed, **given)


def run(
    config: Config,
    out: Path,
    workers: Workers = 1,
    resume: bool = False,
    memory: Path | None = None,
    population: Population | None = None,
) -> Iterator[Step]:
    """Run `config.methods` with every seed into the directory `out`; yield after each round.

    With `resume` a directory that a killed run left is continued where its last round closed; it may be asked for more
    methods and seeds than before. Methods that adapt to nothing train once for all runs that share a `memory` folder
    and differ in their fleets alone. A `population` of one's own takes the place of the task's, in this process. Runs
    that diverge end there, which is logged, and the others go on.
    """
    methods = [config.row(name) for name in config.methods]
    goals = goals_of(config, config.methods)
    whole, same = partial(whole_runs, config), partial(same_settings, config)
    with RunDirectory(out, to_toml(config), resume, whole, same) as directory, open_pool(workers) as pool:
        for seed in range(config.seed, config.seed + config.seeds):
            open_runs = [method for method in methods if not goals[method.name].met(directory.past(method, seed))]
            if not open_runs:
                continue
            task = replace(config.task, seed=seed)
            fleet = fleets.build(config.fleet, seed)
            recipe = task if population is None else _Ready(population)
            built = recipe.build()
            _warn_of_slow_links(fleet, 4 * built.layout.elements * config.payload_scale)
            remembering = pool if memory is None else CachedPool(pool, memory)
            remembering.prepare(recipe, built.layout)
            for method in open_runs:
                used = remembering if isinstance(method.controller, Fixed) else pool
                backend = Simulated(used, built, fleet, method, seed, config.payload_scale)

                def record(result: RoundResult, backend: Simulated = backend) -> None:
                    directory.append(result, backend)

                results = drive(
                    method,
                    backend,
                    schedule_of(config.training, seed, config.fleet.exchange_seconds),
                    goals[method.name],
                    state=directory.restore(method, seed, backend),
                    past=directory.past(method, seed),
                    observers=[record],
                )
                try:
                    for result in results:
                        yield Step(method, seed, result.row)
                except DivergedError as error:
                    logger.warning("%s, seed %d, %s", method.name, seed, error)


def simulate(
    population: Population,
    method: str | Method = "adagq-auto",
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
    _warn_of_slow_links(built, 4 * population.layout.elements * payload_scale)
    goal = goal_of(training, chosen, population.clients)
    with open_pool(workers=1) as pool:
        pool.prepare(_Ready(population), population.layout)
        backend = Simulated(pool, population, built, chosen, seed, payload_scale)
        for result in drive(chosen, backend, schedule_of(training, seed, built.exchange_seconds), goal):
            yield result.row


def _warn_of_slow_links(fleet: fleets.Fleet, model_bytes: float) -> None:
    if text := fleets.slow_link(fleet, model_bytes):
        logger.warning("%s", text)


@dataclass(frozen=True)
class _Ready:
    """The recipe of a population that is there already."""

    population: Population

    def build(self) -> Population:
        return self.population


def goals_of(config: Config, methods: Sequence[str]) -> dict[str, Goal]:
    """Return when the runs of these methods end, by name."""
    return {name: goal_of(config.training, config.row(name), config.task.clients) for name in methods}


def runs_of(config: Config) -> set[tuple[str, int]]:
    """Return (method, seed) of every run."""
    return set(product(config.methods, range(config.seed, config.seed + config.seeds)))


def runs_left(config: Config, directory: Path) -> set[tuple[str, int]]:
    """Return the runs of these settings that are not at their end in a run directory, which need not be there."""
    asked, settings = runs_of(config), directory / CONFIG
    if not settings.is_file():
        return asked
    there = whole_runs(config, settings.read_text("utf-8"), list(read_lines(directory / ROWS)))
    return asked if there is None else asked - there


def whole_runs(config: Config, stored: str, rows: Sequence[Row]) -> set[tuple[str, int]] | None:
    """Return (method, seed) of the runs in `rows` that are at their end.

    `stored` are the settings that the rows were made with, as TOML; None if `config` does not ask for the same runs,
    or for more methods and seeds of the same.
    """
    before = _resolved(stored)
    if before is None:
        return None
    alike = before.model_copy(update={name: getattr(config, name) for name in GROWS}) == config
    if not (alike and runs_of(before) <= runs_of(config) and before.variants.items() <= config.variants.items()):
        return None
    runs: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        runs.setdefault((row["method"], row["seed"]), []).append(row)
    goals = goals_of(config, config.methods)
    return {key for key, its_rows in runs.items() if key[0] in goals and goals[key[0]].met(its_rows)}


def same_settings(config: Config, stored: str) -> bool:
    """Return whether settings that were written down, perhaps by another release, ask for the same runs.

    `methods` says what is run; `method`, from which `train` makes it, has another default in another release.
    """
    before = _resolved(stored)
    return before is not None and before.model_copy(update={"method": config.method}) == config


def _resolved(stored: str) -> Config | None:
    try:
        return resolve(tomllib.loads(stored))
    except (ConfigError, tomllib.TOMLDecodeError):  # perhaps of another release
        return None
