"""wine and breast-cancer: two tables of measurements that come with scikit-learn.

wine             13 features, 3 classes: 142 samples for training, 36 for testing
breast-cancer    30 features, 2 classes: 455 samples for training, 114 for testing
"""

from typing import Any

import numpy as np

from adagq.core.extras import need
from adagq.data.dataset import DataSet, split_off_test
from adagq.data.registry import DATASETS, DataOptions


@DATASETS.register("wine")
def wine(options: DataOptions) -> DataSet:
    """Return the chemical analysis of wines from three growers."""
    return _table("wine", need("sklearn.datasets", "torch").load_wine())


@DATASETS.register("breast-cancer")
def breast_cancer(options: DataOptions) -> DataSet:
    """Return the measurements of cell nuclei of tumours, malignant and benign."""
    return _table("breast-cancer", need("sklearn.datasets", "torch").load_breast_cancer())


def _table(name: str, bunch: Any) -> DataSet:
    inputs, labels = bunch.data.astype(np.float32), bunch.target.astype(np.int64)
    return split_off_test(name, inputs, labels, len(bunch.target_names))
