"""A data set of one's own: points on two rings, a table of two features."""

import numpy as np

from adagq.core.seeds import generator
from adagq.data.dataset import DataSet
from adagq.data.registry import DATASETS, DataOptions


@DATASETS.register("rings")
def rings(options: DataOptions) -> DataSet:
    def draw(part: str, count: int):
        source = generator(options.seed, "rings", part)
        labels = np.arange(count) % 2
        angles = source.uniform(0, 2 * np.pi, count)
        radius = 1.0 + labels + source.normal(0, 0.1, count)
        points = np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1)
        return points.astype(np.float32), labels.astype(np.int64)

    return DataSet("rings", *draw("train", options.samples), *draw("test", 400), 2)
