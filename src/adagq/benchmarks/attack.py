"""`adagq bench attack`: accuracy with poisoners among the clients, under every aggregate.

    none       all are honest
    scale      the update times 100
    flip       the update times -1
    weight     the update times -1, a million times the examples
    buffers    BatchNorm's means and variances are 1e6, on a model that has them (mlp_bn)

Poisoners break no rule of the protocol: their payloads are made with the codec that they were asked for.
They are spread over the fleet, and the same in every run. Accuracy is the mean of the last LAST rounds, over all seeds,
with the standard deviation between seeds where there are several.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from statistics import fmean, stdev
from typing import Any, Final

import numpy as np

from adagq.codecs import Float32, decode
from adagq.core.codec import Codec, Leveled
from adagq.core.errors import AdagqError
from adagq.core.messages import Arrival, Report, Sync, Task, Update
from adagq.core.registry import Registry
from adagq.core.vectors import FloatVector
from adagq.experiments.config import Config, load_config
from adagq.experiments.runner import schedule_of
from adagq.rounds.synchronous import synchronous
from adagq.server.robust import FOR_ANY_ROW
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.pool import Pool
from adagq.simulation.processes import open_pool

LAST: Final = 5
SPREAD: Final = 3  # poisoners are clients 0, 3, 6, …


@dataclass(frozen=True)
class Attack:
    """What a poisoner makes of its update, its examples and its buffers."""

    update: Callable[[FloatVector], FloatVector] = lambda vector: vector
    examples: int = 1  # times
    buffers: float | None = None
    model: str = "mlp"


def _times(factor: float) -> Callable[[FloatVector], FloatVector]:
    return lambda vector: np.float32(factor) * vector


ATTACKS: Final[Registry[Attack]] = Registry("attack", group="adagq.attacks")
ATTACKS.add("scale", Attack(_times(100.0)))
ATTACKS.add("flip", Attack(_times(-1.0)))
ATTACKS.add("weight", Attack(_times(-1.0), examples=10**6))
ATTACKS.add("buffers", Attack(buffers=1e6, model="mlp_bn"))


class Poisoned(Simulated):
    """The simulator with poisoners among its clients."""

    def __init__(self, *arguments: Any, attack: Attack, poisoners: Collection[int]) -> None:
        super().__init__(*arguments)
        self._attack, self._poisoners = attack, frozenset(poisoners)
        self._codecs: dict[int, Codec] = {}

    def post(self, client: int, sync: Sync | None, task: Task | None, until: float = inf) -> None:
        if task is not None:
            self._codecs[client] = task.codec
        super().post(client, sync, task, until)

    def receive(self, until: float) -> Arrival | None:
        arrival = super().receive(until)
        if arrival is None or arrival.client not in self._poisoners:
            return arrival
        return replace(arrival, report=self._report(arrival.report), update=self._update(arrival.update))

    def _report(self, report: Report | None) -> Report | None:
        return None if report is None else replace(report, examples=report.examples * self._attack.examples)

    def _update(self, update: Update | None) -> Update | None:
        if update is None:
            return None
        codec = self._codecs[update.client]
        codec = codec.with_levels(update.levels) if isinstance(codec, Leveled) and update.levels else codec
        vector = self._attack.update(decode(update.payload))
        buffers = update.buffers
        if self._attack.buffers is not None:
            buffers = Float32().encode(np.full(self.layout.buffer_elements, self._attack.buffers, np.float32))
        return replace(
            update,
            payload=codec.encode(vector, update.round, self.layout),
            examples=update.examples * self._attack.examples,
            buffers=buffers,
        )


def accuracy(
    config: Config, pool: Pool, population: Any, attack: Attack, poisoners: Collection[int], rounds: int
) -> float:
    """Return the accuracy in the end; 0 where the run gave up."""
    method, seed = config.row(config.method), config.seed
    fleet = fleets.build(config.fleet, seed)
    backend = Poisoned(pool, population, fleet, method, seed, config.payload_scale, attack=attack, poisoners=poisoners)
    loop = synchronous(method, backend, schedule_of(config.training, seed))
    try:
        return fmean(result.row["accuracy"] or 0.0 for result in list(islice(loop, rounds))[-LAST:])
    except AdagqError:
        return 0.0


def run(
    method: str = "adagq-fit",
    rounds: int = 30,
    poisoners: Sequence[int] = (1, 6),
    workers: int = 1,
    settings: Sequence[str] = (),
    progress: Callable[[str], None] = print,
    seeds: int = 1,
    attacks: Collection[str] = (),
) -> list[list[str]]:
    """Print the table as it is made, as Markdown, and return its lines; `attacks` are those of interest, () all."""
    for name in attacks:
        ATTACKS[name]  # an unknown one is a ConfigError that names the nearest
    lines = [["attack", "poisoners", *FOR_ANY_ROW]]
    progress(f"{method}, {rounds} rounds, {seeds} seed{'s' if seeds > 1 else ''}")
    progress(_markdown(lines[0]))
    progress(_markdown(["---"] * len(lines[0])))
    with open_pool(workers) as pool:
        for model in dict.fromkeys(attack.model for name, attack in ATTACKS.items() if name in (attacks or ATTACKS)):
            config = load_config(None, [f"method={method}", f"task.model={model}", *settings])
            for name, attack, count in _cases(model, poisoners, attacks or ATTACKS):
                scores: list[list[float]] = [[] for _ in FOR_ANY_ROW]
                for seed in range(config.seed, config.seed + seeds):
                    seeded = config.model_copy(update={"seed": seed})
                    task = replace(config.task, seed=seed)
                    population = task.build()
                    pool.prepare(task, population.layout)
                    bad = [(SPREAD * index) % population.clients for index in range(count)]
                    for own, aggregate in zip(scores, FOR_ANY_ROW, strict=True):
                        changed = _with_aggregate(seeded, aggregate)
                        own.append(accuracy(changed, pool, population, attack, bad, rounds))
                lines.append([name, str(count), *map(_percent, scores)])
                progress(_markdown(lines[-1]))
    return lines


def _cases(model: str, poisoners: Sequence[int], attacks: Collection[str]) -> list[tuple[str, Attack, int]]:
    """Return name, attack and number of poisoners of the lines for this model."""
    mine = [(name, attack) for name, attack in ATTACKS.items() if attack.model == model and name in attacks]
    return [(f"none, {model}", Attack(), 0), *((name, attack, count) for name, attack in mine for count in poisoners)]


def _percent(scores: Sequence[float]) -> str:
    """Return the mean in per cent, with the deviation between seeds.

    >>> _percent([0.5]), _percent([0.5, 0.6])
    ('50.0', '55.0 ± 7.1')
    """
    mean = f"{100 * fmean(scores):.1f}"
    return f"{mean} ± {100 * stdev(scores):.1f}" if len(scores) > 1 else mean


def _with_aggregate(config: Config, aggregate: str) -> Config:
    return config.model_copy(update={"training": config.training.model_copy(update={"aggregate": aggregate})})


def _markdown(line: Sequence[str]) -> str:
    return f"| {' | '.join(line)} |"
