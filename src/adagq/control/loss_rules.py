"""Rules that follow the training loss, or the number of the round alone; the same for all clients.

    adaquantfl   s = ceil(s_0 sqrt(F_0 / F))                  levels rise as the loss falls (Jhunjhunwala et al. 2021)
    adacomm      epochs = ceil(sqrt(F / F_0) epochs_0)        epochs fall with the loss (Wang and Joshi 2019)
    lupa         epochs = round(epochs_0 (1 + growth k))      epochs rise with the round k (Haddadpour et al. 2019)

F is the mean of the clients' training losses, by examples, F_0 that of the first round. AdaComm and LUPA count local
steps; here a local epoch is the unit, as in all methods of the table.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from adagq.control.controller import Pair, at_levels, number_from_json, number_to_json, plausible_loss
from adagq.control.registry import CONTROLLERS
from adagq.core.codec import MAX_LEVELS, Codec
from adagq.core.errors import ConfigError
from adagq.core.messages import Choice, Facts, Receipt


def mean_loss(receipts: Sequence[Receipt]) -> float:
    """Return the mean training loss by examples; NaN if there is none that can be believed."""
    known = [receipt for receipt in receipts if plausible_loss(receipt.train_loss)]
    examples = sum(receipt.examples for receipt in known)
    return sum(receipt.examples * receipt.train_loss for receipt in known) / examples if examples else math.nan


@dataclass(frozen=True, slots=True)
class LossState:
    """The round, and the first and the last positive loss."""

    round: int = 0
    first: float = math.nan
    last: float = math.nan

    @property
    def fall(self) -> float:
        """F / F_0; 1 while nothing is known."""
        return self.last / self.first if self.first > 0.0 else 1.0

    def to_json(self) -> dict[str, Any]:
        return {"round": self.round, "first": number_to_json(self.first), "last": number_to_json(self.last)}


class LossRule:
    """What the three rules share: all but `choose`."""

    __slots__ = ()

    def init(self, clients: int) -> LossState:
        return LossState()

    def observe(self, state: LossState, facts: Facts) -> LossState:
        loss = mean_loss(facts.receipts)
        if not loss > 0.0:
            return LossState(facts.round, state.first, state.last)
        return LossState(facts.round, state.first if state.first > 0.0 else loss, loss)

    def probe(self, state: LossState, cohort: Sequence[int], codec: Codec) -> dict[int, Pair]:
        return {}

    def broadcast(self, state: LossState, elements: int) -> int | None:
        return None

    def from_json(self, data: Mapping[str, Any]) -> LossState:
        return LossState(int(data["round"]), number_from_json(data["first"]), number_from_json(data["last"]))


@CONTROLLERS.register("adaquantfl")
@dataclass(frozen=True, slots=True)
class AdaQuantFL(LossRule):
    """Levels that rise with the root of the loss's fall, from `levels`.

    >>> from adagq.codecs import QSGD
    >>> AdaQuantFL().choose(LossState(9, first=2.0, last=0.5), [0], QSGD())[0].codec.levels
    4
    """

    reads_losses: ClassVar[bool] = True

    levels: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.levels <= MAX_LEVELS:
            raise ConfigError(f"levels = {self.levels!r}: must be in 1 … {MAX_LEVELS}")

    def choose(self, state: LossState, cohort: Sequence[int], codec: Codec) -> dict[int, Choice]:
        levels = min(math.ceil(self.levels / math.sqrt(state.fall)), MAX_LEVELS)
        return {client: Choice(at_levels(codec, levels)) for client in cohort}


@CONTROLLERS.register("adacomm")
@dataclass(frozen=True, slots=True)
class AdaComm(LossRule):
    """Local epochs that fall with the root of the loss, from `epochs`.

    >>> from adagq.codecs import Float32
    >>> AdaComm(epochs=5).choose(LossState(9, first=2.0, last=0.5), [0], Float32())[0].epochs
    3
    """

    reads_losses: ClassVar[bool] = True

    epochs: int = 5

    def __post_init__(self) -> None:
        check_epochs(self.epochs)

    def choose(self, state: LossState, cohort: Sequence[int], codec: Codec) -> dict[int, Choice]:
        epochs = min(max(math.ceil(math.sqrt(state.fall) * self.epochs), 1), self.epochs)
        return {client: Choice(epochs=epochs) for client in cohort}


@CONTROLLERS.register("lupa")
@dataclass(frozen=True, slots=True)
class Lupa(LossRule):
    """Local epochs that rise by `growth` a round, up to `epochs_max`.

    >>> from adagq.codecs import Float32
    >>> [Lupa(1, 0.1).choose(LossState(round), [0], Float32())[0].epochs for round in (1, 11, 21, 200)]
    [1, 2, 3, 10]
    """

    epochs: int = 1
    growth: float = 0.1
    epochs_max: int = 10

    def __post_init__(self) -> None:
        check_epochs(self.epochs)
        if not 0.0 <= self.growth < math.inf or self.epochs_max < self.epochs:
            raise ConfigError(
                f"growth = {self.growth!r}, epochs_max = {self.epochs_max!r}: must be >= 0, and >= {self.epochs}"
            )

    def choose(self, state: LossState, cohort: Sequence[int], codec: Codec) -> dict[int, Choice]:
        risen = round(self.epochs * (1.0 + self.growth * max(state.round - 1, 0)))
        return {client: Choice(epochs=min(risen, self.epochs_max)) for client in cohort}


def check_epochs(epochs: int) -> None:
    if not isinstance(epochs, int) or epochs < 1:
        raise ConfigError(f"epochs = {epochs!r}: must be a whole number >= 1")
