"""A learner that other processes find by its name."""

import time
from typing import Any

from flwr.app import Context

from toy import ToySpec


def learner(context: Context) -> Any:
    """Return the toy learner of a node's partition; `nap` seconds of the node's config make it slow."""
    made = ToySpec().build().learner(int(context.node_config["partition-id"]))
    train, nap = made.train, float(context.node_config.get("nap", 0.0))

    def slowly(epochs: int, learning_rate: float, seed: int) -> float:
        time.sleep(nap)
        return train(epochs, learning_rate, seed)

    made.train = slowly
    return made
