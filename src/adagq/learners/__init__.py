"""Torch models, data sets and partitions behind `client.Learner` and `client.Population`.

    from adagq.learners import TaskSpec                        # a task in plain fields; build() a population
    from adagq.learners import TorchLearner, TorchPopulation   # your own modules and data

Torch takes seconds to import, so it is imported when the first of its names is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adagq.learners.task import TaskSpec

if TYPE_CHECKING:
    from adagq.learners.flat import FlatModule
    from adagq.learners.loop_learner import LoopLearner
    from adagq.learners.models import MODELS
    from adagq.learners.torch_learner import Samples, TorchLearner, TorchPopulation

__all__ = ["MODELS", "FlatModule", "LoopLearner", "Samples", "TaskSpec", "TorchLearner", "TorchPopulation"]

_HOMES = {
    "MODELS": "models",
    "FlatModule": "flat",
    "LoopLearner": "loop_learner",
    "Samples": "torch_learner",
    "TorchLearner": "torch_learner",
    "TorchPopulation": "torch_learner",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
