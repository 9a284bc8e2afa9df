"""Client-level differential privacy: what one client adds to a round is bounded, and noise hides it.

    clip       every update is cut to the norm C, by the client and again by the server once it is decoded
    noise      "server":  the sum of a round's updates gets N(0, (z C)^2) on every entry: what leaves the server is
                          private, and the server is trusted with what arrives
               "clients": every client adds N(0, (z C)^2) to its own update before it is quantized: what leaves the
                          client is private, and nobody is trusted

z is `noise_multiplier`. Two runs are neighbours if they differ in all that one client contributes: zero in one of them.
Who takes part, when, and how many bytes it sends is not hidden. All updates weigh the same, so a client's part of the
sum is at most C. Quantizing, the server's optimizer and the broadcast come after the noise, or before the server's cut:
they cost no privacy. The accountant is Opacus' (Renyi divergences, at the orders below): a client that takes part in k
rounds pays for k Gaussian mechanisms. Sampling does not count in its favour: cohorts are drawn from the run's seed,
which everyone knows. docs/privacy.md has the whole argument.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import sqrt
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from adagq.core.errors import ConfigError
from adagq.core.extras import installed, need
from adagq.core.seeds import generator
from adagq.core.settings import Number, settings
from adagq.core.vectors import FloatVector, Layout

ORDERS: Final = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(12, 64), *(2**power for power in range(6, 11)))
MOST_NOISE: Final = 1e6
TABLE: Final = "training.privacy"


@settings(TABLE)
class Privacy:
    """Settings; `clip = 0` is no privacy. One of `epsilon` and `noise_multiplier` says how much noise there is."""

    clip: Annotated[Number, Field(ge=0)] = 0.0  # an update's largest norm; 0 = no differential privacy
    epsilon: Annotated[Number, Field(ge=0)] = 0.0  # spent after max_rounds: the noise follows; 0 = as noise_multiplier
    noise_multiplier: Annotated[Number, Field(ge=0)] = 0.0  # the noise's deviation over `clip`; 0 = as epsilon
    delta: Annotated[Number, Field(gt=0, lt=1)] = 1e-5  # the chance that epsilon does not hold; below 1 / clients
    noise: Literal["server", "clients"] = "server"  # who adds it: a server that is trusted, or every client

    def __post_init__(self) -> None:
        given = [name for name in ("epsilon", "noise_multiplier") if getattr(self, name)]
        if self.clip and len(given) != 1:
            what = "one of epsilon and noise_multiplier must be above 0, and not both"
            raise ConfigError(f"{TABLE}: {what} (epsilon = {self.epsilon}, noise_multiplier = {self.noise_multiplier})")
        if given and not self.clip:
            raise ConfigError(f"{TABLE}.{given[0]} = {getattr(self, given[0])}: needs {TABLE}.clip, the largest norm")

    @property
    def on(self) -> bool:
        return self.clip > 0

    @property
    def central(self) -> bool:
        """Whether the server adds the noise."""
        return self.on and self.noise == "server"

    @property
    def local(self) -> bool:
        """Whether every client does."""
        return self.on and self.noise == "clients"

    @property
    def deviation(self) -> float:
        """The noise's standard deviation: of an entry of the sum, or of each client's."""
        return self.noise_multiplier * self.clip

    def calibrated(self, rounds: int) -> "Privacy":
        """Return the settings with the noise that `epsilon` asks for, if every client takes part in all rounds."""
        if not (self.on and self.epsilon):
            return self
        return replace(self, epsilon=0.0, noise_multiplier=noise_for(self.epsilon, rounds, self.delta))

    def check(self, aggregate: str, clients: int = 0, layout: Layout | None = None) -> None:
        """ConfigError if these settings promise nothing: another aggregate, few clients, or buffers in the model."""
        if not self.on:
            return
        if self.central and aggregate != "mean":
            raise ConfigError(
                f"training.aggregate = {aggregate!r}: noise at the server is measured for the mean alone; "
                f'use "mean", or {TABLE}.noise = "clients"'
            )
        if clients * self.delta >= 1:
            raise ConfigError(f"{TABLE}.delta = {self.delta:g}: must be below 1 / clients = {1 / clients:.3g}")
        if layout is not None and layout.buffer_elements:
            names = [tensor.name for tensor in layout.tensors if tensor.buffer]
            raise ConfigError(
                f"{TABLE}: the model has buffers ({names[0]}, …), which would leave the clients without noise; "
                "use a model without BatchNorm, with GroupNorm or LayerNorm in its place"
            )
        if not installed("opacus"):
            need("opacus", "privacy")

    def noised(self, mean: FloatVector, updates: int, seed: int) -> FloatVector:
        """Return the mean of so many updates with the server's noise; as it is if the clients added theirs."""
        if not self.central:
            return mean
        noise = generator(seed, "privacy noise").standard_normal(mean.size, np.float32)
        noise *= np.float32(self.deviation / updates)
        noise += mean
        return noise

    def noise_energy(self, elements: int, updates: int) -> float:
        """Return the expected energy of the noise in the mean of so many updates."""
        if not self.on or updates < 1:
            return 0.0
        return elements * (self.deviation / (updates if self.central else sqrt(updates))) ** 2


@dataclass(frozen=True, slots=True)
class Spent:
    """How often each client's data went into something that is released.

    >>> Spent().after([0, 1]).after([1]).most
    2
    """

    rounds: Mapping[int, int] = field(default_factory=dict)

    def after(self, clients: Iterable[int]) -> "Spent":
        return Spent(Counter(self.rounds) + Counter(list(clients)))

    def interrupted(self) -> "Spent":
        """Return what may have been spent when a run was killed in the middle of a round: one more of everybody."""
        return self.after(self.rounds)

    @property
    def most(self) -> int:
        return max(self.rounds.values(), default=0)

    def columns(self, privacy: Privacy) -> dict[str, float]:
        """Return what a row says of it: epsilon of the client that took part most often, and delta."""
        epsilon = epsilon_of(privacy.noise_multiplier, self.most, privacy.delta)
        return {"epsilon": epsilon, "delta": privacy.delta}

    def to_json(self) -> dict[str, int]:
        return {str(client): rounds for client, rounds in sorted(self.rounds.items())}

    @classmethod
    def from_json(cls, data: Mapping[str, int]) -> "Spent":
        return cls({int(client): rounds for client, rounds in data.items()})


@lru_cache(maxsize=4096)
def epsilon_of(noise_multiplier: float, rounds: int, delta: float) -> float:
    """Return epsilon after so many Gaussian mechanisms; 0 before the first."""
    if not rounds:
        return 0.0
    accountant = need("opacus.accountants", "privacy").RDPAccountant()
    accountant.history = [(noise_multiplier, 1.0, rounds)]
    return float(accountant.get_epsilon(delta, alphas=list(ORDERS)))


def noise_for(epsilon: float, rounds: int, delta: float) -> float:
    """Return the least noise multiplier whose epsilon after so many rounds is not above `epsilon`."""
    low, high = 0.0, 1.0
    while epsilon_of(high, rounds, delta) > epsilon:
        low, high = high, 2 * high
        if high > MOST_NOISE:
            raise ConfigError(f"{TABLE}.epsilon = {epsilon:g}: out of reach in {rounds} rounds")
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of(middle, rounds, delta) > epsilon else (low, middle)
    return high


def privacy_of(given: Any) -> Privacy:
    """Return settings from a table such as `{"clip": 1.0, "epsilon": 8.0}`; None is no privacy."""
    if given is None or isinstance(given, Privacy):
        return given or Privacy()
    if not isinstance(given, Mapping):
        raise ConfigError(f"privacy = {given!r}: must be a table, such as {{'clip': 1.0, 'epsilon': 8.0}}")
    return Privacy(**given)
