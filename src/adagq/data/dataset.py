"""A data set: inputs of any shape, integer labels, a training and a test part.

    images      (N, channels, height, width), uint8 or float32
    features    (N, features), uint8 or float32
    tokens      (N, length), int64: ids from 0 to classes - 1

Labels are one class a sample, (N,), or one a token, (N, length). Images and features are normalised, per channel and
per feature; tokens are not.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from adagq.core.errors import DataError
from adagq.core.seeds import generator
from adagq.data.files import Array
from adagq.data.lazy_shares import Indices

Shape = tuple[int, ...]
BLOCK = 1000  # samples that statistics are taken over at once: all of CIFAR-10 in float64 would be 1.2 GB
INPUT_TYPES = ("uint8", "float32", "int64")


@dataclass(frozen=True, eq=False)
class DataSet:
    """Inputs as they are stored, labels 0 … classes - 1."""

    name: str
    train_inputs: Array
    train_labels: Array
    test_inputs: Array
    test_labels: Array
    classes: int
    owners: Array | None = None  # the user of each training sample, 0 … users - 1, where the data know

    def __post_init__(self) -> None:
        for part, inputs, labels in (
            ("train", self.train_inputs, self.train_labels),
            ("test", self.test_inputs, self.test_labels),
        ):
            where = f"{self.name}: {part}"
            if inputs.dtype.name not in INPUT_TYPES or inputs.ndim < 2:
                raise DataError(
                    f"{where} inputs are {inputs.dtype} of shape {inputs.shape}; must be (samples, …) of "
                    + ", ".join(INPUT_TYPES)
                )
            if labels.dtype != np.int64 or labels.shape not in (inputs.shape[:1], inputs.shape[:2]):
                raise DataError(
                    f"{where} labels are {labels.dtype} of shape {labels.shape}; must be int64, one a sample or a token"
                )

    @property
    def shape(self) -> Shape:
        """The shape of one sample."""
        return tuple(map(int, self.train_inputs.shape[1:]))

    @property
    def has_tokens(self) -> bool:
        """Whether inputs are ids, which have no mean and no deviation."""
        return self.train_inputs.dtype == np.int64

    def normalisation(self) -> tuple[Array, Array] | None:
        """Return mean and deviation of each channel or feature in the training part, as float32; None for tokens."""
        return None if self.has_tokens else channel_statistics(self.train_inputs)


def channel_statistics(inputs: Array) -> tuple[Array, Array]:
    """Return mean and deviation of each channel or feature, as float32."""
    channels = inputs.shape[1]
    others = tuple(axis for axis in range(inputs.ndim) if axis != 1)
    total, squares = np.zeros(channels), np.zeros(channels)
    for start in range(0, len(inputs), BLOCK):
        block = inputs[start : start + BLOCK].astype(np.float64)
        total += block.sum(others)
        squares += np.square(block).sum(others)
    count = inputs.size / channels
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
    # A channel that never changes has nothing to scale.
    deviation[deviation < 1e-6] = 1
    return mean.astype(np.float32), deviation.astype(np.float32)


def split_off_test(name: str, inputs: Array, labels: Array, classes: int) -> DataSet:
    """Return a data set from samples without parts: a fifth of each class, always the same, is for testing."""
    order = generator(0, name).permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    for_test = np.arange(len(labels)) % 5 == 0
    train, test = np.sort(by_class[~for_test]), np.sort(by_class[for_test])
    return DataSet(name, inputs[train], labels[train], inputs[test], labels[test], classes)


class UserStyle(Protocol):
    """Draws the samples of one user, the same every time."""

    def draw(self, user: int, count: int) -> tuple[Array, Array]:
        """Return the inputs and labels of a user."""
        ...


@dataclass(frozen=True, eq=False)
class UserData:
    """A data set whose training part is drawn user by user; nothing of it is kept."""

    name: str
    sizes: Indices  # samples of every user
    style: UserStyle
    test_inputs: Array
    test_labels: Array
    classes: int

    has_tokens: ClassVar = False

    def draw(self, user: int) -> tuple[Array, Array]:
        """Return the inputs and labels of one user."""
        return self.style.draw(user, int(self.sizes[user]))

    @property
    def shape(self) -> Shape:
        """The shape of one sample."""
        return tuple(map(int, self.test_inputs.shape[1:]))

    def normalisation(self) -> tuple[Array, Array] | None:
        """Return mean and deviation of each channel in the test part, which has a sample each of many users."""
        return channel_statistics(self.test_inputs)
