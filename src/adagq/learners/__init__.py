"""Learning with torch, behind `client.Learner` and `client.Population`.

    from adagq.learners import LearningTask                        # a task in plain fields; build() a population
    from adagq.learners import TorchLearner, TorchPopulation       # your own modules and data
    from adagq.learners import LoopLearner, ArrayLearner           # your own training loop, on torch or on arrays

Torch takes seconds to import, so it is imported when the first of its names is used.
"""

from typing import TYPE_CHECKING, Any

from adagq.core.extras import need
from adagq.core.lazy import lazy_names
from adagq.learners.task import LearningTask

if TYPE_CHECKING:
    from adagq.learners.array_learner import ArrayLearner, ArrayPopulation
    from adagq.learners.flat import FlatModule
    from adagq.learners.loop_learner import LoopLearner
    from adagq.learners.models import MODELS, ModelOptions
    from adagq.learners.samples import Samples
    from adagq.learners.torch_learner import TorchLearner, TorchPopulation
    from adagq.learners.travelling import travelling_state

__all__ = [
    "MODELS",
    "ArrayLearner",
    "ArrayPopulation",
    "FlatModule",
    "LearningTask",
    "LoopLearner",
    "ModelOptions",
    "Samples",
    "TorchLearner",
    "TorchPopulation",
    "travelling_state",
]

_load = lazy_names(
    __name__,
    {
        "MODELS": "models",
        "ArrayLearner": "array_learner",
        "ArrayPopulation": "array_learner",
        "FlatModule": "flat",
        "LoopLearner": "loop_learner",
        "ModelOptions": "models",
        "Samples": "samples",
        "TorchLearner": "torch_learner",
        "TorchPopulation": "torch_learner",
        "travelling_state": "travelling",
    },
)


def __getattr__(name: str) -> Any:
    if name in __all__ and not name.startswith("Array"):
        need("torch", "torch")
    return _load(name)
