"""Nodes that train longer than they need to: what a federation does with a slow computer, tried on one machine."""

import time
from collections.abc import Mapping
from typing import Any

from adagq.client.learner import Learner
from adagq.core.errors import ConfigError


class Slowed:
    """A learner whose training takes `seconds` longer."""

    def __init__(self, learner: Learner, seconds: float) -> None:
        self._learner, self._seconds = learner, seconds

    def train(self, epochs: float, learning_rate: float, seed: int) -> float:
        time.sleep(self._seconds)
        return self._learner.train(epochs, learning_rate, seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)


def parse_slow(given: str, nodes: int) -> Mapping[int, float]:
    """Return the seconds by node of `3=10` or `0=2.5,3=10`.

    >>> parse_slow("0=2.5,3=10", nodes=4)
    {0: 2.5, 3: 10.0}
    """
    slow = {}
    for part in filter(None, given.split(",")):
        node, _, seconds = part.partition("=")
        try:
            slow[int(node)] = float(seconds)
        except ValueError:
            raise ConfigError(f"slow = {given!r}: must be NODE=SECONDS, such as 3=10") from None
        if not 0 <= int(node) < nodes or not 0.0 <= float(seconds) < 1e6:
            raise ConfigError(f"slow = {given!r}: nodes are 0 to {nodes - 1}, seconds at least 0")
    return slow
