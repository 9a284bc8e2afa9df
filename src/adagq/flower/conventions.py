"""Flower's conventions that a strategy of ours keeps, and one clear warning of those it does not.

train_config    lr → learning rate, local-epochs → epochs of the method; the rest goes to learners that take `config`
FedAvg's        fractions and least numbers of nodes, functions that aggregate metrics are kept; the names of records
options         are not: nobody but adagq reads its messages
"""

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, replace
from logging import WARNING
from typing import Any, Final

from flwr.app import ConfigRecord
from flwr.supercore import log

from adagq.core.errors import ConfigError
from adagq.core.registry import suggestion
from adagq.flower.names import ROUND, WEIGHT
from adagq.methods.table import Method
from adagq.rounds import Schedule
from adagq.rounds.schedule import AUTO, exchanges_of
from adagq.server.privacy import privacy_of

GIVEN: Final = ("seed", "min_clients", "noise_seed")  # of the schedule: set by the strategy, not by the user's keywords
EXCHANGE_SECONDS: Final = 1.0  # that Flower takes for an exchange at the least (`adagq bench flower`)
USUAL: Final = {"weighted_by_key": WEIGHT, "arrayrecord_key": "arrays", "configrecord_key": "config"}
DEADLINE_FACTOR: Final = 3.0  # polling and process starts alone vary by seconds
RATE: Final = "lr"
EPOCHS: Final = "local-epochs"


def without_meaning(options: Mapping[str, Any]) -> list[str]:
    """Return which of FedAvg's options are given and ask for something that is not done."""
    return [name for name, usual in USUAL.items() if options.get(name, usual) != usual]


def config_for_nodes(train_config: ConfigRecord | None) -> dict[str, Any]:
    """Return what of `train_config` goes to the nodes' learners; the rate and the epochs are in every task."""
    return {key: value for key, value in (train_config or {}).items() if key not in (RATE, EPOCHS, ROUND)}


def warn_of_unused(
    names: Iterable[str], config: Mapping[str, Any], asks: str, introductions: Collection[Mapping[str, Any]]
) -> None:
    """Say once what was given and no node acts on; `asks` names what asks for evaluation on the nodes."""
    takes_config, evaluates = (any(said.get(key) for said in introductions) for key in ("takes-config", "evaluates"))
    unused = [*names, *(f"train_config[{key!r}]" for key in config if not takes_config)]
    if given := ", ".join(unused):
        log(WARNING, "Without effect here: %s. A learner whose `train` has a parameter `config` gets it.", given)
    if asks and not evaluates:
        log(WARNING, "%s: no node evaluates; give its learner `evaluate` (LoopLearner, ArrayLearner).", asks)


def with_epochs(method: Method, train_config: ConfigRecord | None) -> Method:
    """Return the method with the epochs that `train_config` names."""
    epochs = None if train_config is None else train_config.get(EPOCHS)
    if epochs is None:
        return method
    if not isinstance(epochs, int) or epochs < 1:
        raise ConfigError(f"train_config[{EPOCHS!r}] = {epochs!r}: must be a whole number of at least 1")
    return replace(method, epochs=epochs)


def checked_schedule(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `adagq.rounds.Schedule`; ConfigError now, not when the run starts, if one cannot be."""
    known = [field.name for field in fields(Schedule) if field.name not in GIVEN]
    for name in schedule:
        if name not in known:
            raise ConfigError(f"unknown option {name!r}: {suggestion(name, known)}")
    exchanges = schedule.get("exchanges", 2)
    if exchanges not in (1, 2, AUTO):
        raise ConfigError(f"exchanges = {exchanges!r}: a round has 1 or 2, or {AUTO!r}")
    given = {**schedule, "exchanges": exchanges_of(exchanges, EXCHANGE_SECONDS)}
    given["privacy"] = privacy_of(schedule.get("privacy"))
    Schedule(seed=0, **given)  # checks the values now, not when the run starts
    return given


def check_fractions(fraction_train: float, fraction_evaluate: float, min_available_nodes: int) -> None:
    """Refuse shares and numbers of nodes that cannot be."""
    if not 0 < fraction_train <= 1:
        raise ConfigError(f"fraction_train = {fraction_train}: must be above 0 and at most 1")
    if not 0 <= fraction_evaluate <= 1:
        raise ConfigError(f"fraction_evaluate = {fraction_evaluate}: must be at least 0 and at most 1")
    if min_available_nodes < 1:
        raise ConfigError(f"min_available_nodes = {min_available_nodes}: must be at least 1")


def scheduled(
    options: Mapping[str, Any],
    seed: int,
    min_available_nodes: int,
    num_rounds: int,
    timeout: float,
    train_config: ConfigRecord | None,
) -> Schedule:
    """Return the schedule of a run: the strategy's options, else what Flower's own settings say."""
    given = dict(options)
    rate = None if train_config is None else train_config.get(RATE)
    if isinstance(rate, int | float) and "learning_rate" not in given:
        given["learning_rate"] = float(rate)
        given.setdefault("decay", 1.0)
    given.setdefault("first_deadline_seconds", float(timeout))
    given.setdefault("deadline_factor", DEADLINE_FACTOR)
    least = max(min_available_nodes, int(given.get("min_updates", 1)))
    given["privacy"] = privacy_of(given.get("privacy")).calibrated(num_rounds)
    given["privacy"].check(given.get("aggregate", "mean"), least)
    return Schedule(seed=seed, min_clients=least, noise_seed=secrets.randbits(63), **given)


def sampled(schedule: Schedule, fraction: float, least: int, present: int) -> Schedule:
    """Return the schedule with the number of nodes that `fraction_train` stands for, of those that are there."""
    if fraction >= 1 or schedule.participants:
        return schedule
    return replace(schedule, participants=max(int(fraction * present), least, 1))
