"""synthetic: one smooth gaussian prototype per class plus noise; images of any shape, learnable by any model."""

import numpy as np

from adagq.core.errors import DataError
from adagq.core.seeds import generator
from adagq.data.dataset import DataSet, Shape
from adagq.data.files import Array
from adagq.data.registry import DATASETS, DataOptions

SHAPE = (1, 16, 16)


@DATASETS.register("synthetic")
def load_synthetic(options: DataOptions) -> DataSet:
    """Return the images that the options describe."""
    return synthetic(options.shape or SHAPE, options.classes, options.samples, seed=options.seed)


def synthetic(
    shape: Shape = SHAPE, classes: int = 10, samples: int = 4000, noise: float = 1.0, seed: int = 0
) -> DataSet:
    """Return `samples` training images and a quarter as many test images: prototype of the class + noise.

    Prototypes are 4x4 pictures blown up to the full size, so that they survive convolutions and pooling.
    """
    if len(shape) != 3 or min(*shape, samples) < 1 or classes < 2:
        raise DataError(
            f"synthetic: shape {shape}, {classes} classes, {samples} samples: too small; "
            "shape is [channels, height, width], classes are 2 or more"
        )
    channels, height, width = shape
    coarse = generator(seed, "synthetic", "prototypes").standard_normal((classes, channels, 4, 4), np.float32)
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 4 // width
    prototypes = coarse[:, :, rows][:, :, :, columns]

    def draw(part: str, count: int) -> tuple[Array, Array]:
        source = generator(seed, "synthetic", part)
        labels = source.permutation(np.arange(count) % classes).astype(np.int64)
        images = source.standard_normal((count, *shape), np.float32) * np.float32(noise)
        return images + prototypes[labels], labels

    return DataSet("synthetic", *draw("train", samples), *draw("test", max(classes, samples // 4)), classes)
