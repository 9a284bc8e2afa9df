"""The functions that a user hands to a learner: train, loss, evaluate; each is called with what it takes."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from adagq.core.errors import ConfigError

Metrics = Mapping[str, float]
LOSSES = ("train_loss", "train-loss", "loss")  # names of the mean training loss among metrics


class OwnFunctions:
    """Holds what the server's `train_config` and `evaluate_config` say, for functions with a parameter `config`."""

    def __init__(self, examples: int, least_epochs: float = 1.0) -> None:
        if examples < 1:
            raise ConfigError(f"examples = {examples}: a client needs at least one training sample")
        if not 0.0 < least_epochs <= 1.0:
            raise ConfigError(f"least_epochs = {least_epochs!r}: must be above 0 and at most 1")
        self.config: dict[str, Any] = {}
        self.metrics: dict[str, float] = {}  # of the last training, beside its loss

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the function, with the server's settings if it takes `config`."""
        return function(*arguments, config=self.config) if takes_config(function) else function(*arguments)

    def trained(self, said: float | Metrics | None) -> float:
        """Note what a training function returned, its loss or all its metrics, and return the loss."""
        self.metrics = dict(said) if isinstance(said, Mapping) else {}
        loss = next((self.metrics.pop(name) for name in LOSSES if name in self.metrics), None)
        loss = loss if isinstance(said, Mapping) else said
        return math.nan if loss is None else float(loss)


def takes_config(function: Callable[..., Any] | None) -> bool:
    """Whether a function has a parameter `config`."""
    try:
        return function is not None and "config" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a built-in
        return False


def metrics_of(said: Any) -> dict[str, float]:
    """Return what an evaluating function returned as metrics; ConfigError if it is no mapping of numbers."""
    if not isinstance(said, Mapping):
        raise ConfigError(
            f"evaluate returned {type(said).__name__}: it must return a mapping, such as {{'accuracy': 0.9}}"
        )
    return {str(name): float(value) for name, value in said.items()}
