"""adagq: federated learning, fast over slow and unequal links.

    result = adagq.compare(methods=["fedavg", "adagq-fit"], training={"target": 0.9})
    result.table()

Every name below is imported when it is first used: `import adagq` itself loads nothing heavy.
"""

from typing import TYPE_CHECKING, Any

from adagq.core.lazy import lazy_names

if TYPE_CHECKING:
    from adagq import codecs
    from adagq.api import compare, train
    from adagq.client.learner import Learner, Population
    from adagq.core.errors import (
        AdagqError,
        CheckpointError,
        ConfigError,
        DataError,
        DivergedError,
        LayoutError,
        NonFiniteError,
        OutputError,
        PayloadError,
    )
    from adagq.data.shares import split
    from adagq.experiments.config import Config, Training, load_config
    from adagq.learners import ArrayLearner, ArrayPopulation, LoopLearner, TorchLearner, TorchPopulation
    from adagq.methods.table import METHODS, Method, method_of
    from adagq.report.result import Result
    from adagq.simulation import fleet

__version__ = "0.2.0"
__all__ = [
    "METHODS",
    "AdagqError",
    "ArrayLearner",
    "ArrayPopulation",
    "CheckpointError",
    "Config",
    "ConfigError",
    "DataError",
    "DivergedError",
    "LayoutError",
    "Learner",
    "LoopLearner",
    "Method",
    "NonFiniteError",
    "OutputError",
    "PayloadError",
    "Population",
    "Result",
    "TorchLearner",
    "TorchPopulation",
    "Training",
    "__version__",
    "codecs",
    "compare",
    "fleet",
    "load_config",
    "method_of",
    "split",
    "train",
]

_HOMES = {
    "api": "compare train",
    "client.learner": "Learner Population",
    "codecs": "codecs",
    "core.errors": "AdagqError CheckpointError ConfigError DataError DivergedError LayoutError NonFiniteError "
    "OutputError PayloadError",
    "data.shares": "split",
    "experiments.config": "Config Training load_config",
    "learners": "ArrayLearner ArrayPopulation LoopLearner TorchLearner TorchPopulation",
    "methods.table": "METHODS Method method_of",
    "report.result": "Result",
    "simulation.fleet": "fleet",
}
_load = lazy_names(__name__, {name: home for home, names in _HOMES.items() for name in names.split()})


def __getattr__(name: str) -> Any:
    return _load(name)


def __dir__() -> list[str]:
    return sorted(__all__)
