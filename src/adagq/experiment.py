"""Config -> run directory: every method with every seed, a line per round, written as it happens.

    config.toml     the resolved settings
    rows.jsonl      one line per method, seed and round
    ledger.jsonl    one line per method, seed, round and client

docs/architecture.md has the columns. `report` makes the rest from these files. A directory that holds
anything is never written to.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from adagq import fleet as fleets
from adagq.backends.processes import open_pool
from adagq.backends.simulated import Simulated
from adagq.config import Config, Training, to_toml
from adagq.errors import CheckpointError
from adagq.methods import Method, method_of
from adagq.rounds import Closed, Schedule, federate

REFERENCE = "ideal"  # what the communication tax is measured against


@dataclass(frozen=True, slots=True)
class Step:
    """A round has closed and is written down."""

    method: Method
    seed: int
    row: Mapping[str, Any]


def compared(config: Config) -> list[Method]:
    """Return the methods of a comparison; the reference of the tax is always among them."""
    return [method_of(name) for name in dict.fromkeys((*config.methods, REFERENCE))]


def run(config: Config, methods: Sequence[Method], out: Path, workers: int = 1) -> Iterator[Step]:
    """Run the methods with every seed into the new directory `out`; yield after each round."""
    create(out)
    (out / "config.toml").write_text(to_toml(config), "utf-8")
    with (
        open_pool(workers) as pool,
        Lines(out / "rows.jsonl") as rows,
        Lines(out / "ledger.jsonl") as ledger,
    ):
        for seed in range(config.seed, config.seed + config.seeds):
            task = replace(config.task, seed=seed)
            fleet = fleets.build(config.fleet, seed)
            population = task.build()
            pool.prepare(task, population.layout)
            schedule = _schedule(config, fleet, seed)
            for method in methods:
                backend = Simulated(pool, population, fleet, method, seed, config.payload_scale)
                for closed in until_target(config.training, federate(method, backend, schedule)):
                    ledger.append(closed.ledger)
                    rows.append([closed.row])
                    yield Step(method, seed, closed.row)


def until_target(training: Training, rounds: Iterable[Closed]) -> Iterator[Closed]:
    """Pass rounds on until `extra_rounds` after the target, or until `max_rounds` without it."""
    last = training.max_rounds
    reached = False
    for closed in rounds:
        yield closed
        if not reached and closed.row["accuracy"] >= training.target:
            reached, last = True, closed.row["round"] + training.extra_rounds
        if closed.row["round"] >= last:
            return


def create(out: Path) -> None:
    """Make the run directory; CheckpointError if it is there and not empty, or cannot be made."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        taken = any(out.iterdir())
    except OSError as error:
        raise CheckpointError(f"{out}: cannot be made a run directory ({error.strerror})") from None
    if taken:
        raise CheckpointError(
            f"{out} is not empty; nothing was written. Choose another --out, or remove it first"
        )


class Lines:
    """A .jsonl file that only grows; the lines of one `append` are written in one piece."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n" for row in rows)
        data = text.encode()
        while data:
            data = data[os.write(self._file, data) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


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
