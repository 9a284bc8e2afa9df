"""`adagq advise`: the best row of the leaderboard for a fleet of one's own.

    expected = measured on the board * predicted round there / predicted round here,   for every row

The board measured the time to its target on four fleets; `adagq plan`'s arithmetic predicts a round on any. The board's
fleet whose links stand most like the user's beside its computers is the one that is scaled, of those with failing
clients if the user's fail. The rounds that a task needs are the board's: on another task all rows take more or fewer,
so the order is worth more than the minutes; the board's other tasks say whether they would choose likewise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, Final

from adagq.benchmarks.leaderboard import RUNS, load, records
from adagq.benchmarks.standings import Standing, standings, surely_faster
from adagq.core.errors import ConfigError
from adagq.experiments.config import Config
from adagq.experiments.plan import MethodPlan, clients_of, round_of
from adagq.experiments.plan_input import PlanInput, members_of
from adagq.experiments.runner import REFERENCE
from adagq.methods.table import Method
from adagq.simulation import fleet as fleets

BOARD_PARAMS: Final = 11_173_962  # what the board's payloads count as
FAR: Final = 3.0  # times slower or faster than the board's nearest fleet: beyond that the order is a guess
FAILING: Final = 0.05  # of client-rounds


@dataclass(frozen=True, slots=True)
class Choice:
    """A row and what it is expected to take."""

    standing: Standing
    seconds: float
    deviation: float  # of the seeds
    round: MethodPlan

    @property
    def name(self) -> str:
        return self.standing.method


@dataclass(frozen=True, slots=True)
class Advice:
    """Rows in order of the expected time, and how far that can be trusted."""

    choices: tuple[Choice, ...]
    fleet: str  # of the board, that was scaled
    distance: float  # how many times slower or faster its links are beside its computers
    confidence: str
    reason: str


def packaged() -> Path:
    """Return the folder of the runs that came with the package."""
    return Path(str(files("adagq.benchmarks")))


def advise(config: fleets.FleetConfig, params: float, board: Path | None = None, task: str = "digits") -> Advice:
    """Return the rows of the board for this fleet and a model of so many parameters, by their times on `task`."""
    entries = load()
    runs = records(board or packaged(), entries)
    if task not in {entry.task for entry in entries} or not any(run["task"] == task for run in runs):
        raise ConfigError(
            f"{(board or packaged()) / RUNS}: no runs of task {task!r} with the board's present settings; "
            "adagq leaderboard"
        )
    found = standings(runs)
    mine = planned(config, params)
    configs = {entry.fleet: entry.config for entry in entries if entry.task == task}
    theirs = {fleet: planned(configs[fleet].fleet, BOARD_PARAMS) for one, fleet in found if one == task}
    name = nearest(mine, fails(config), theirs, configs)
    distance = slowness(mine) / slowness(theirs[name])
    orders = {
        one: _ordered(rows, configs[name], mine, theirs[name]) for (one, fleet), rows in found.items() if fleet == name
    }
    if not (order := orders.pop(task)):
        raise ConfigError(f"no row of the board reached the target on {name!r}: nothing to advise from")
    confidence = _confidence(order, distance) + "".join(_second_opinion(order[0], *other) for other in orders.items())
    return Advice(order, name, distance, confidence, _reason(order[0]))


def _ordered(rows: Sequence[Standing], config: Config, mine: PlanInput, theirs: PlanInput) -> tuple[Choice, ...]:
    """Return the rows that reached the target with every seed, in order of the time that they are expected to take."""
    choices = [
        _choice(standing, config.row(standing.method), mine, theirs)
        for standing in rows
        if standing.reached == standing.seeds and standing.method != REFERENCE
    ]
    return tuple(sorted(choices, key=lambda choice: choice.seconds))


def _second_opinion(best: Choice, task: str, order: Sequence[Choice]) -> str:
    places = [choice.name for choice in order]
    if best.name not in places:
        return f"; on {task} it did not reach the target, or was not run"
    if places[0] == best.name:
        return f"; first on {task}, too"
    slower = order[places.index(best.name)].seconds / order[0].seconds
    return f"; on {task} {places[0]} is first, it takes {slower:.2f} times as long"


def planned(config: fleets.FleetConfig, params: float) -> PlanInput:
    """Return a fleet and a model as `adagq plan` takes them."""
    fleet = fleets.build(config, seed=0)
    members = members_of(fleet, [""] * len(fleet), params)
    return PlanInput(
        params=params, members=members, server_seconds=fleet.server_seconds, exchange_seconds=fleet.exchange_seconds
    )


def slowness(given: PlanInput) -> float:
    """Return how long the model takes up as float32, beside an epoch; the client in the middle."""
    uploads = median(32e-6 * given.params / one.uplink_mbps for one in given.members)
    return uploads / median(one.epoch_seconds for one in given.members)


def fails(config: fleets.FleetConfig) -> bool:
    """Whether clients fail often enough to matter."""
    rates = [config.drop_rate, *(group.drop_rate for group in config.client)]
    return max((_most(rate) for rate in rates if rate is not None), default=0.0) >= FAILING


def nearest(mine: PlanInput, failing: bool, theirs: dict[str, PlanInput], configs: dict[str, Config]) -> str:
    """Return the board's fleet whose links stand most like these, among those that fail likewise if there is one."""
    alike = [name for name in theirs if fails(configs[name].fleet) == failing] or list(theirs)
    wanted = math.log(slowness(mine))
    return min(alike, key=lambda name: abs(math.log(slowness(theirs[name])) - wanted))


def _choice(standing: Standing, row: Method, mine: PlanInput, theirs: PlanInput) -> Choice:
    here, there = (round_of(given, row, clients_of(given)) for given in (mine, theirs))
    ratio = here.round_seconds / there.round_seconds
    return Choice(standing, ratio * standing.mean_seconds, ratio * standing.std_seconds, here)


def _confidence(order: Sequence[Choice], distance: float) -> str:
    best, seeds = order[0], order[0].standing.seeds
    within = best.seconds + 2 * max(best.deviation, 1e-9)
    near = [
        other.name for other in order[1:]
        if other.seconds < within and not surely_faster(best.standing, other.standing)
    ]  # fmt: skip
    apart = max(distance, 1 / distance)
    if apart > FAR or seeds < 2:
        why = f"links {apart:.1f} times off the board's nearest fleet" if apart > FAR else "one seed"
        return f"low: {why}"
    if near:
        return f"middling: {seeds} seeds do not tell it from {', '.join(near[:4])}"
    return f"fair: ahead of all others beyond the luck of {seeds} seeds, on the board's own task"


def _reason(best: Choice) -> str:
    """Return where the time of the best row's round goes, and what saves it."""
    row = best.round
    parts = {"computing": row.compute_seconds, "upload": row.upload_seconds, "download": row.download_seconds}
    most = max(parts, key=lambda name: parts[name])
    return (
        f"It sends {row.upload_bits:.3g} bits a parameter up and {row.download_bits:.3g} down. A trip is "
        f"{row.compute_seconds:.1f} s of computing, {row.upload_seconds:.1f} s up and {row.download_seconds:.1f} s "
        f"down: {most} is what is left to shorten."
    )


def _most(rate: Any) -> float:
    return float(max(rate)) if isinstance(rate, tuple | list) else float(rate)
