"""Config -> run directory: every method with every seed, a line per round, written as it happens.

`run_directory` has the files; `report` makes the rest from them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adagq import fleet as fleets
from adagq.backends.processes import open_pool
from adagq.backends.simulated import Simulated
from adagq.config import Config, Training, to_toml
from adagq.methods import Method, method_of
from adagq.rounds import Schedule, federate
from adagq.run_directory import RunDirectory

Row = Mapping[str, Any]
REFERENCE = "ideal"  # what the communication tax is measured against


@dataclass(frozen=True, slots=True)
class Step:
    """A round has closed and is written down."""

    method: Method
    seed: int
    row: Row


def compared(config: Config) -> Config:
    """Return the settings of a comparison: the reference of the tax is always among its methods."""
    return config.model_copy(update={"methods": tuple(dict.fromkeys((*config.methods, REFERENCE)))})


def run(config: Config, out: Path, workers: int = 1, resume: bool = False) -> Iterator[Step]:
    """Run `config.methods` with every seed into the directory `out`; yield after each round.

    With `resume` a directory that a killed run left is continued where its last round closed.
    """
    methods = [method_of(name) for name in config.methods]
    with RunDirectory(out, to_toml(config), resume) as directory, open_pool(workers) as pool:
        for seed in range(config.seed, config.seed + config.seeds):
            open_runs = [method for method in methods if not finished(config.training, directory.past(method, seed))]
            if not open_runs:
                continue
            task = replace(config.task, seed=seed)
            fleet = fleets.build(config.fleet, seed)
            population = task.build()
            pool.prepare(task, population.layout)
            schedule = _schedule(config, fleet, seed)
            for method in open_runs:
                backend = Simulated(pool, population, fleet, method, seed, config.payload_scale)
                state = directory.restore(method, seed, backend)
                rows = directory.past(method, seed)
                for closed in federate(method, backend, schedule, state):
                    directory.append(closed, backend)
                    rows.append(closed.row)
                    yield Step(method, seed, closed.row)
                    if finished(config.training, rows):
                        break


def finished(training: Training, rows: Sequence[Row]) -> bool:
    """Whether a run is `extra_rounds` past the target, or at `max_rounds` without it."""
    reached = next((row["round"] for row in rows if (row["accuracy"] or 0.0) >= training.target), None)
    last = training.max_rounds if reached is None else reached + training.extra_rounds
    return bool(rows) and rows[-1]["round"] >= last


def _schedule(config: Config, fleet: fleets.Fleet, seed: int) -> Schedule:
    training = config.training
    return Schedule(
        seed=seed,
        clients=len(fleet),
        participants=training.participants,
        learning_rate=training.learning_rate,
        decay=training.decay,
        joins={client: member.join_round for client, member in enumerate(fleet.clients)},
    )
