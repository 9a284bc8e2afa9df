"""DATASETS: every data set by name, filled by the files that define them.

    @DATASETS.register("mine")
    def mine(options: DataOptions) -> DataSet: …

A package adds a data set by an entry point of the group "adagq.datasets", a file by `plugins` in the settings.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from adagq.core.errors import ConfigError
from adagq.core.registry import Registry
from adagq.data.dataset import DataSet, Shape, UserData


@dataclass(frozen=True)
class DataOptions:
    """What settings say about the data; a loader uses what has a meaning for it."""

    folder: str | os.PathLike[str] | None = None  # where the files lie; None: the usual places
    seed: int = 0  # of data that are drawn
    shape: Shape | None = None  # of one sample; None: the data set's own
    classes: int = 10
    samples: int = 4000  # of the training part
    clients: int = 20  # users of data that are drawn user by user …
    samples_per_client: int | None = None  # … with so many samples each; None: the data set's own
    size_spread: float | None = None  # sigma of their log-normal sizes; None: the data set's own


Loader = Callable[[DataOptions], DataSet | UserData]
DATASETS: Final[Registry[Loader]] = Registry("data set", group="adagq.datasets")


def load_data(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    shape: Shape | None = None,
    classes: int = 10,
    samples: int = 4000,
    seed: int = 0,
) -> DataSet:
    """Return a data set by name; shape, classes, samples and seed describe data that are drawn."""
    data = DATASETS[name](DataOptions(folder, seed, shape, classes, samples))
    if not isinstance(data, DataSet):
        raise ConfigError(f"data: {name!r} is drawn client by client, by a learning task; there is no whole of it")
    return data
