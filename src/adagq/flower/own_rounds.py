"""Flower's steps of a round, which no strategy of ours runs.

Only a strategy that wraps ours calls them, such as Flower's for differential privacy: those clip and add noise to whole
models, which never travel here.
"""

from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from adagq.core.errors import ConfigError


class OwnRounds(Strategy):
    """A strategy that overrides `start` and cannot be wrapped."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        raise _not_wrapped()

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        raise _not_wrapped()

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        raise _not_wrapped()

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        raise _not_wrapped()


def _not_wrapped() -> ConfigError:
    return ConfigError(
        "adagq's strategies run their own rounds on compressed updates and cannot be wrapped by another strategy: "
        "Flower's differential privacy would have no effect; nothing was trained. "
        'Use the strategy\'s own: privacy={"clip": 1.0, "epsilon": 8.0}'
    )
