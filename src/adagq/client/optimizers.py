"""Client optimizers: what a client's SGD adds to its gradient, for any row of the table.

    fedprox   gradient + mu (w - w_round)                                  (Li et al. 2020)
    fedcm     alpha gradient + (1 - alpha) g / (learning rate * steps)     (Xu et al. 2021)

w_round is the model that the round began with and g the last step of the global model, which every client holds
already: no byte travels for either. In a client's first round g is zero and FedCM is plain SGD.

A row takes one as a suffix (`fedavg+fedprox`), settings as `client_optimizer = { kind = "fedcm", alpha = 0.2 }`. The
learner must be able to (`Steered`); the torch learner of settings and examples is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol, runtime_checkable

from adagq.core.errors import ConfigError
from adagq.core.registry import Registry, make_part
from adagq.core.vectors import FloatVector

CLIENT_OPTIMIZERS: Registry[Any] = Registry("client optimizer", group="adagq.client_optimizers")


class ClientOptimizer(Protocol):
    """A frozen value that says how strongly a local step is pulled, and where to."""

    @property
    def proximal(self) -> float:
        """The pull back to the round's first model, per unit of distance."""
        ...

    @property
    def inertia(self) -> float:
        """The share of a step that follows the last global step."""
        ...


@CLIENT_OPTIMIZERS.register("sgd")
@dataclass(frozen=True, slots=True)
class SGD:
    """The gradient alone."""

    @property
    def proximal(self) -> float:
        return 0.0

    @property
    def inertia(self) -> float:
        return 0.0


@CLIENT_OPTIMIZERS.register("fedprox")
@dataclass(frozen=True, slots=True)
class FedProx:
    """A proximal term that keeps clients near the round's model.

    >>> FedProx(mu=0.1).proximal
    0.1
    """

    mu: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 <= self.mu < inf:
            raise ConfigError(f"mu = {self.mu!r}: must be a number >= 0")

    @property
    def proximal(self) -> float:
        return self.mu

    @property
    def inertia(self) -> float:
        return 0.0


@CLIENT_OPTIMIZERS.register("fedcm")
@dataclass(frozen=True, slots=True)
class FedCM:
    """Client-level momentum: most of every local step is the last global one.

    >>> round(FedCM(alpha=0.1).inertia, 6)
    0.9
    """

    alpha: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha <= 1.0:
            raise ConfigError(f"alpha = {self.alpha!r}: must be a number above 0 and up to 1")

    @property
    def proximal(self) -> float:
        return 0.0

    @property
    def inertia(self) -> float:
        return 1.0 - self.alpha


@runtime_checkable
class Steered(Protocol):
    """A learner whose next training can be pulled."""

    def steer(self, proximal: float, inertia: float, direction: FloatVector) -> None:
        """Set what pulls the next call of `train`; `direction` is the last global step. Zeros: nothing."""
        ...


def client_optimizer_of(plain: Mapping[str, Any]) -> ClientOptimizer:
    """Return a client optimizer from plain settings.

    >>> client_optimizer_of({"kind": "fedprox", "mu": 0.5})
    FedProx(mu=0.5)
    """
    made: ClientOptimizer = make_part(CLIENT_OPTIMIZERS, plain)
    return made


def steer(learner: object, proximal: float, inertia: float, direction: FloatVector) -> None:
    """Pull the learner's next training as a task says; ConfigError where it cannot be."""
    if isinstance(learner, Steered):
        learner.steer(proximal, inertia, direction)
    elif proximal or inertia:
        raise ConfigError(f"client optimizer: {type(learner).__name__} has no `steer`; the torch learner has")
