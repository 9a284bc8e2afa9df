"""digits: scikit-learn's 8x8 digits, which come with it: 1,437 for training, 360 for testing."""

import numpy as np

from adagq.core.extras import need
from adagq.data.dataset import DataSet, split_off_test
from adagq.data.registry import DATASETS, DataOptions


@DATASETS.register("digits")
def digits(options: DataOptions) -> DataSet:
    """Return the digits; every option is without meaning here."""
    bunch = need("sklearn.datasets", "torch").load_digits()  # a second of imports that other data sets do not need
    return split_off_test("digits", bunch.images.astype(np.uint8)[:, None], bunch.target.astype(np.int64), 10)
