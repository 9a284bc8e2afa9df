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
    with RunDirectory(out, to_toml(config)) as directory, open_pool(workers) as pool:
        for seed in range(config.seed, config.seed + config.seeds):
            task = replace(config.task, seed=seed)
            fleet = fleets.build(config.fleet, seed)
            population = task.build()
            pool.prepare(task, population.layout)
            schedule = _schedule(config, fleet, seed)
            for method in methods:
                backend = Simulated(pool, population, fleet, method, seed, config.payload_scale)
                for closed in until_target(config.training, federate(method, backend, schedule)):
                    directory.append(closed)
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


class RunDirectory:
    """A new directory that appears with its first round; files only grow, a line at a time."""

    def __init__(self, path: Path, config: str) -> None:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise CheckpointError(
                f"{path} is there already; nothing was written. Choose another --out or remove it first"
            )
        self._path = path
        self._config = config
        self._files: dict[str, int] = {}

    def append(self, closed: Closed) -> None:
        """Write a round: the ledger first, so that a row is there only when its ledger is."""
        try:
            if not self._files:
                self._create()
            self._write("ledger.jsonl", closed.ledger)
            self._write("rows.jsonl", [closed.row])
        except OSError as error:
            raise CheckpointError(f"{self._path}: cannot be written ({error.strerror})") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            os.close(file)

    def _create(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        (self._path / "config.toml").write_text(self._config, "utf-8")
        for name in ("rows.jsonl", "ledger.jsonl"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._files[name] = os.open(self._path / name, flags, 0o644)

    def _write(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write whole lines in one piece (one system call, unless the disk is full)."""
        text = "".join(json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n" for row in rows)
        data = text.encode()
        while data:
            data = data[os.write(self._files[name], data) :]


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
