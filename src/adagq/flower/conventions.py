"""Flower's conventions that a strategy of ours keeps, and one clear warning of those it does not.

train_config    lr → learning rate, local-epochs → epochs of the method; nodes see no other key
FedAvg's        fraction_train, min_train_nodes, min_available_nodes are kept; evaluation on nodes and functions that
options         aggregate metrics are not: models are evaluated at the server by `evaluate_fn`
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from logging import WARNING
from typing import Any, Final

from flwr.app import ConfigRecord
from flwr.supercore import log

from adagq.core.errors import ConfigError
from adagq.methods.table import Method

FEDAVG_OPTIONS: Final = (
    *("fraction_evaluate", "min_evaluate_nodes", "weighted_by_key", "arrayrecord_key", "configrecord_key"),
    *("train_metrics_aggr_fn", "evaluate_metrics_aggr_fn"),
)
RATE: Final = "lr"
EPOCHS: Final = "local-epochs"
FLOWERS_OWN: Final = "server-round"


def without_meaning(options: Mapping[str, Any]) -> list[str]:
    """Return which of FedAvg's options are given and ask for something that is not done."""
    return [name for name in FEDAVG_OPTIONS if options.get(name)]


def unused_keys(train_config: ConfigRecord | None, evaluate_config: ConfigRecord | None) -> list[str]:
    """Return the settings of `start` that no node gets to see."""
    known = (RATE, EPOCHS, FLOWERS_OWN)
    unused = [f"train_config[{key!r}]" for key in train_config or {} if key not in known]
    return unused + (["evaluate_config"] if evaluate_config else [])


def warn_of_unused(names: Iterable[str]) -> None:
    """Say once what was given and has no effect."""
    if given := ", ".join(names):
        log(
            WARNING,
            "Without effect here: %s. Models are evaluated at the server by evaluate_fn; a node's learner gets its "
            "settings from the run config (flwr run --run-config).",
            given,
        )


def with_epochs(method: Method, train_config: ConfigRecord | None) -> Method:
    """Return the method with the epochs that `train_config` names."""
    epochs = None if train_config is None else train_config.get(EPOCHS)
    if epochs is None:
        return method
    if not isinstance(epochs, int) or epochs < 1:
        raise ConfigError(f"train_config[{EPOCHS!r}] = {epochs!r}: must be a whole number of at least 1")
    return replace(method, epochs=epochs)
