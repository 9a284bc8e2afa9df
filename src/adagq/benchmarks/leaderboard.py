"""The leaderboard: every row of the table on several fleets, plain and with the same server optimizer.

    <out>/runs.jsonl          a line per run: task, fleet, optimizer, method, seed, and what it took to the target
    <out>/leaderboard.md      the standings of all fleets, made from it (`standings`)

Tasks, rows, seeds and fleets come from leaderboard.toml. Runs are short, so one that was interrupted begins anew, and
all others are kept: the same command goes on, and takes more rows and seeds. A run whose settings have changed since is
run again. Seeds are the outermost loop, so that a board that was stopped has all rows with as many seeds. Fleets are
the innermost: where links decide nothing about the updates, these are computed once for all fleets.
"""

import dataclasses
import json
import logging
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import xxhash

from adagq.core.errors import AdagqError, ConfigError
from adagq.core.jsonl import append_lines, read_lines
from adagq.core.registry import suggestion
from adagq.experiments.config import Config, load_config, merged, on_defaults, read_toml, resolve
from adagq.experiments.runner import REFERENCE, Step, goal_of, schedule_of
from adagq.methods.table import Method
from adagq.rounds import drive
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.cache import CachedPool
from adagq.simulation.processes import open_pool

BOARD: Final = files("adagq.benchmarks") / "leaderboard.toml"
RUNS: Final = "runs.jsonl"
PLAIN: Final = "plain"
KEYS: Final = ("task", "fleet", "optimizer", "method", "seed")
Record = Mapping[str, Any]
logger = logging.getLogger("adagq")


@dataclass(frozen=True)
class Entry:
    """One run of the board."""

    task: str
    fleet: str
    optimizer: str
    method: Method
    seed: int
    config: Config
    given: str  # the settings that the config was made from, as JSON: defaults that are new change nothing

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        return self.task, self.fleet, self.optimizer, self.method.name, self.seed

    @property
    def fingerprint(self) -> str:
        """A digest of what the run depends on: the settings of row and config that are not defaults."""
        row = dataclasses.replace(self.method, label="", description="", compared=False, ink="")
        return xxhash.xxh3_64_hexdigest(f"{essence(row)} {self.given} {self.seed}".encode())


def essence(part: Any) -> Any:
    """Return what a row or a part of it is: its kind, and the knobs that are not its defaults.

    >>> from adagq.codecs import ErrorFeedback, TopK
    >>> essence(ErrorFeedback(TopK(0.5)))
    ('ErrorFeedback', {'codec': ('TopK', {'fraction': 0.5})})
    """
    if not dataclasses.is_dataclass(part):
        return part
    known = {field.name: getattr(part, field.name) for field in dataclasses.fields(part) if field.compare}
    usual = {field.name: field.default for field in dataclasses.fields(part)}
    changed = {name: essence(value) for name, value in known.items() if value != usual[name]}
    return type(part).__name__, changed


def load(
    tasks: Sequence[str] = (),
    fleets: Sequence[str] = (),
    methods: Sequence[str] = (),
    optimizers: Sequence[str] = (),
    seeds: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Entry]:
    """Return the runs of the board in order; all unless some are named, `settings` on top of the board's.

    >>> [entry.key for entry in load(["digits"], ["paper"], ["eden"], ["plain"], seeds=1)]
    [('digits', 'paper', 'plain', 'eden', 1), ('digits', 'paper', 'plain', 'ideal', 1)]
    """
    board = tomllib.loads(BOARD.read_text("utf-8"))
    chosen = {
        what: _known(what, given, board[what])
        for what, given in (("tasks", tasks), ("fleets", fleets), ("optimizers", optimizers))
    }
    runs = []
    for task in chosen["tasks"]:
        count = board["tasks"][task].pop("seeds", 1) if seeds is None else seeds
        rows = tuple(dict.fromkeys((*(methods or board["methods"]), REFERENCE)))
        trees = {
            (optimizer, fleet): _config(board, task, fleet, optimizer, rows, settings or {})
            for optimizer in chosen["optimizers"]
            for fleet in chosen["fleets"]
        }
        runs += [
            Entry(task, fleet, optimizer, trees[optimizer, fleet][0].row(row), seed, *trees[optimizer, fleet])
            for seed in range(board["first_seed"], board["first_seed"] + count)
            for optimizer in chosen["optimizers"]
            for row in rows
            for fleet in chosen["fleets"]
            if optimizer == PLAIN or _changed(trees[optimizer, fleet][0], row)
        ]
    return runs


def sweep(path: Path) -> list[Entry]:
    """Return the runs of a file of variants, such as benchmarks/rivals_sweep.toml: one fleet, plain, its own seeds."""
    config, given = load_config(path), _given(on_defaults(read_toml(path)))
    seeds = range(config.seed, config.seed + config.seeds)
    return [
        Entry("sweep", "paper", PLAIN, config.row(name), seed, config, given)
        for name in config.methods
        for seed in seeds
    ]


def left(entries: Sequence[Entry], out: Path) -> list[Entry]:
    """Return the runs that are not in `<out>/runs.jsonl`, or were made with other settings."""
    known = {_key(record): record["settings"] for record in read_lines(out / RUNS)}
    return [entry for entry in entries if known.get(entry.key) != entry.fingerprint]


def play(entries: Sequence[Entry], out: Path, workers: int | str = 1) -> Iterator[Step]:
    """Run what is left and note each run in `<out>/runs.jsonl`; yield after each round."""
    out.mkdir(parents=True, exist_ok=True)
    with open_pool(workers) as workers_pool:
        pool = CachedPool(workers_pool, None)
        prepared, shared = None, None
        for entry in left(entries, out):
            recipe = replace(entry.config.task, seed=entry.seed)
            if prepared is None or prepared[0] != recipe:
                prepared = recipe, recipe.build()
                pool.prepare(recipe, prepared[1].layout)
            if shared != (entry.task, entry.optimizer, entry.method.name, entry.seed):
                shared = entry.task, entry.optimizer, entry.method.name, entry.seed
                pool.forget()
            rows: list[Record] = []
            backend = _backend(entry, pool, prepared[1])
            try:
                schedule = schedule_of(entry.config.training, entry.seed, entry.config.fleet.exchange_seconds)
                goal = goal_of(entry.config.training, entry.method, entry.config.task.clients)
                for result in drive(entry.method, backend, schedule, goal):
                    rows.append(result.row)
                    yield Step(entry.method, entry.seed, result.row, f"{entry.fleet}, {entry.optimizer}")
            except AdagqError as error:  # diverged, or too few clients were left
                logger.warning("%s: %s", " ".join(map(str, entry.key)), error)
            append_lines(out / RUNS, [record_of(entry, rows, backend.state_bytes)])


def _backend(entry: Entry, pool: CachedPool, population: Any) -> Simulated:
    fleet = fleets.build(entry.config.fleet, entry.seed)
    return Simulated(pool, population, fleet, entry.method, entry.seed, entry.config.payload_scale)


def record_of(entry: Entry, rows: Sequence[Record], state_bytes: int) -> Record:
    """Return what a run took until it reached the target, or in all if it did not; bytes are per client."""
    target, clients, scale = entry.config.training.target, entry.config.task.clients, entry.config.payload_scale
    first = next((place for place, row in enumerate(rows) if (row["accuracy"] or 0.0) >= target), None)
    spent = rows if first is None else rows[: first + 1]
    return {
        **dict(zip(KEYS, entry.key, strict=True)),
        "reached": first is not None,
        "seconds": round(spent[-1]["seconds"], 3) if spent else 0.0,
        "rounds": len(spent),
        "upload_bytes": round(sum(row["upload_bytes"] for row in spent) / clients),
        "download_bytes": round(sum(row["download_bytes"] for row in spent) / clients),
        "best_accuracy": round(max((row["accuracy"] or 0.0 for row in spent), default=0.0), 5),
        "staleness": round(sum(row["staleness"] for row in spent) / max(len(spent), 1), 3),
        "state_bytes": round(state_bytes * scale),
        "settings": entry.fingerprint,
    }


def records(out: Path, entries: Sequence[Entry] | None = None) -> list[Record]:
    """Return the runs in `out`, the latest of each; with `entries` only those, made with their settings."""
    latest = {_key(record): record for record in read_lines(out / RUNS)}
    if entries is None:
        return list(latest.values())
    return [latest[one.key] for one in entries if latest.get(one.key, {}).get("settings") == one.fingerprint]


def name_of(record: Record) -> str:
    """Return a run's row as `adagq train --method` takes it, such as `qsgd+nesterov`."""
    plain: str = record["method"]
    return plain if record["optimizer"] == PLAIN else f"{plain}+{record['optimizer']}"


def _key(record: Record) -> tuple[Any, ...]:
    return tuple(record[name] for name in KEYS)


def _changed(config: Config, row: str) -> bool:
    """Whether the board's optimizer changes a row: not the reference, nor one that has its own."""
    return config.row(row) != config.model_copy(update={"server_optimizer": None}).row(row)


def _known(what: str, given: Sequence[str], known: Mapping[str, Any]) -> list[str]:
    for name in given:
        if name not in known:
            raise ConfigError(f"unknown {what[:-1]} {name!r}: {suggestion(name, known)} Known: {', '.join(known)}")
    return list(given or known)


def _config(
    board: Mapping[str, Any], task: str, fleet: str, optimizer: str, rows: Sequence[str], settings: Mapping[str, Any]
) -> tuple[Config, str]:
    tree = merged(merged(board["tasks"][task], {"fleet": board["fleets"][fleet]}), settings)
    if board["optimizers"][optimizer]:
        tree = merged(tree, {"server_optimizer": board["optimizers"][optimizer]})
    whole = on_defaults(tree | {"methods": list(rows), "variants": board.get("variants", {})})
    return resolve(whole), _given(whole)


def _given(tree: Mapping[str, Any]) -> str:
    left_out = ("methods", "variants", "seed", "seeds")
    return json.dumps({key: value for key, value in tree.items() if key not in left_out}, sort_keys=True, default=str)
