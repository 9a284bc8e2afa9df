"""Data sets by name, how clients share them, and where their files come from.

Importing this package registers the data sets that come with adagq: one file each, named here.
"""

from importlib import import_module

from adagq.data.dataset import DataSet
from adagq.data.registry import DATASETS, DataOptions, load_data

for _file in ("digits", "synthetic", "fashion_mnist", "cifar10", "characters", "tables", "users", "shakespeare"):
    import_module(f"adagq.data.{_file}")

__all__ = ["DATASETS", "DataOptions", "DataSet", "load_data"]
