"""Who trains when, how fast the clients learn, how long they are waited for, and what may count."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from adagq.core.errors import ConfigError
from adagq.core.seeds import derive, generator
from adagq.server.deadlines import DeadlinePolicy
from adagq.server.intake import NO_PRIVACY, Bounds
from adagq.server.privacy import Privacy
from adagq.server.robust import AGGREGATES

AUTO: Final = "auto"
DEAR_SECONDS: Final = 0.5  # an exchange that costs more is made once a round


def exchanges_of(setting: int | str, exchange_seconds: float) -> int:
    """Return the exchanges of a round; "auto" is one where each costs dearly beside its bytes, else the paper's two.

    >>> exchanges_of("auto", exchange_seconds=1.5), exchanges_of("auto", 0.0), exchanges_of(2, 1.5)
    (1, 2, 2)
    """
    if setting == AUTO:
        return 1 if exchange_seconds > DEAR_SECONDS else 2
    return int(setting)


@dataclass(frozen=True)
class Schedule:
    """The settings of a run's rounds."""

    seed: int
    participants: int = 0  # sampled per round; 0 = all
    learning_rate: float = 0.01
    decay: float = 0.995  # of the learning rate, per round
    exchanges: int = 2  # a round; with 1 tasks travel with syncs, decided before this round's reports
    deadline_seconds: float | None = None  # of every round; None derives it from recent rounds
    deadline_factor: float = 1.5
    first_deadline_seconds: float = inf  # while there is nothing to derive it from
    min_updates: int = 1  # a round with fewer is repeated
    min_clients: int = 1  # a round begins when so many are there
    norm_bound: float = 5.0  # an update's norm, times the median of recent ones: it is cut to that; 0 = no bound
    weight_bound: float = 5.0  # a client's examples, times the median: more do not count; 0 = no bound
    aggregate: str = "mean"  # of `server.robust.AGGREGATES`
    byzantine_share: float = 0.3  # of the updates that may be bad: what trimmed-mean and krum leave out
    exclude_after: int = 0  # rounds with a refused or cut message: then the client pauses; 0 = never
    privacy: Privacy = NO_PRIVACY  # with its noise multiplier known
    noise_seed: int | None = None  # of the server's noise, a secret; None: the run's own, for simulations

    def __post_init__(self) -> None:
        AGGREGATES[self.aggregate]  # an unknown one is a ConfigError that names the nearest
        if not 0 <= self.byzantine_share < 0.5:
            raise ConfigError(f"byzantine_share = {self.byzantine_share!r}: must be from 0 to below 0.5")
        if self.exclude_after < 0:
            raise ConfigError(f"exclude_after = {self.exclude_after!r}: must be at least 0")
        self.privacy.check(self.aggregate)

    @property
    def deadlines(self) -> DeadlinePolicy:
        return DeadlinePolicy(self.deadline_seconds, self.deadline_factor, self.first_deadline_seconds)

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.norm_bound or inf, self.weight_bound or inf)

    def noise_seed_of(self, round: int) -> int:
        """Return the seed of the server's noise in a round."""
        return derive(self.seed if self.noise_seed is None else self.noise_seed, "noise", round)

    def cohort(self, round: int, present: Sequence[int], attempt: int = 0) -> tuple[int, ...]:
        """Return the clients of this round, drawn from those that are there, in order; other ones if it is repeated."""
        if not 0 < self.participants < len(present):
            return tuple(present)
        path = (round, attempt) if attempt else (round,)
        drawn = generator(self.seed, "cohort", *path).choice(list(present), self.participants, replace=False)
        return tuple(sorted(int(client) for client in drawn))

    def rate(self, round: int) -> float:
        """Return the learning rate of a round; rounds count from 1."""
        return float(self.learning_rate * self.decay ** (round - 1))
