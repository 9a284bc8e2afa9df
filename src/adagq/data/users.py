"""users: generated people with a style and a class mix of their own, drawn one by one when they are asked for.

    image = contrast * shifted prototype of the class + a background of the user's own + noise

A user's contrast, shift, background and number of samples are its style; its classes are a Dirichlet draw, so that most
users have two or three of them. Nothing of a user is kept: 100,000 of them cost their sizes, and the same seed draws
the same user anywhere. The test part has users of its own, a sample each, all classes alike. The data are generated:
no person wrote them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from adagq.core.errors import DataError
from adagq.core.seeds import generator
from adagq.data.dataset import UserData
from adagq.data.files import Array
from adagq.data.lazy_shares import spread_sizes
from adagq.data.registry import DATASETS, DataOptions

SHAPE: Final = (1, 16, 16)
SAMPLES: Final = 30  # of a user, on average
SPREAD: Final = 0.8  # sigma of the log-normal sizes
MIX: Final = 0.3  # Dirichlet's alpha of a user's classes
SHIFT: Final = 2  # pixels, each way
BACKGROUND, NOISE = 0.6, 0.8
TEST_SAMPLES: Final = 4000


@dataclass(frozen=True, eq=False)
class Style:
    """Draws the samples of users; `prototypes` are one picture a class."""

    prototypes: Array
    seed: int

    def draw(self, user: int, count: int) -> tuple[Array, Array]:
        """Return `count` samples of one user."""
        return self.samples((user,), None, count)

    def samples(self, user: tuple[str | int, ...], labels: Array | None, count: int) -> tuple[Array, Array]:
        """Return `count` samples of one user, of its own classes if no labels are given."""
        source = generator(self.seed, "users", *user)
        classes, channels, height, width = self.prototypes.shape
        contrast = np.float32(source.uniform(0.6, 1.6))
        shift = source.integers(-SHIFT, SHIFT + 1, 2)
        background = _smooth(source.standard_normal((1, channels, 4, 4), np.float32), height, width)[0]
        if labels is None:
            labels = source.choice(classes, count, p=source.dirichlet(np.full(classes, MIX))).astype(np.int64)
        noise = source.standard_normal((count, channels, height, width), np.float32)
        pictures = np.roll(self.prototypes[labels], tuple(shift), axis=(2, 3))
        return contrast * pictures + np.float32(BACKGROUND) * background + np.float32(NOISE) * noise, labels


@DATASETS.register("users")
def users(options: DataOptions) -> UserData:
    """Return as many users as there are clients, with `samples_per_client` samples each on average."""
    shape = options.shape or SHAPE
    share = SAMPLES if options.samples_per_client is None else options.samples_per_client
    if len(shape) != 3 or min(shape) < 1 or options.classes < 2:
        raise DataError(
            f"users: shape {shape}, {options.classes} classes: must be [channels, height, width], 2 or more"
        )
    channels, height, width = shape
    coarse = generator(options.seed, "users", "prototypes").standard_normal(
        (options.classes, channels, 4, 4), np.float32
    )
    style = Style(_smooth(coarse, height, width), options.seed)
    sizes = spread_sizes(
        options.clients, share, SPREAD if options.size_spread is None else options.size_spread, options.seed
    )
    labels = np.arange(TEST_SAMPLES) % options.classes
    test = [style.samples(("test", user), labels[user : user + 1], 1)[0] for user in range(TEST_SAMPLES)]
    return UserData("users", sizes, style, np.concatenate(test), labels, options.classes)


def _smooth(coarse: Array, height: int, width: int) -> Array:
    """Blow 4x4 pictures up to the full size."""
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 4 // width
    return coarse[:, :, rows][:, :, :, columns]
