"""What a user's own model and data must offer: `Learner` for one client, `Population` for all of a simulation."""

from array import array
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Protocol

from adagq.core.vectors import FloatVector, Layout


class Learner(Protocol):
    """One client's model and data. `learners/` has the torch one; a user's own needs only these members."""

    @property
    def layout(self) -> Layout: ...

    @property
    def examples(self) -> int:
        """Training samples of this client: its weight in the average."""
        ...

    @property
    def held_out(self) -> int:
        """Samples that `loss` goes through: what a probe costs."""
        ...

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        """Set the model to these parameters and buffers."""
        ...

    def dump(self) -> tuple[FloatVector, FloatVector]:
        """Return copies of the model's parameters and buffers."""
        ...

    def train(self, epochs: float, learning_rate: float, seed: int) -> float:
        """Run local SGD and return the mean training loss; the same seed gives the same result.

        `epochs` is an int unless the learner has `least_epochs` below 1: then it may be asked for a part of an epoch.
        """
        ...

    def loss(self) -> float:
        """Return the loss on this client's held-out samples: always the same ones; nothing is changed."""
        ...


def least_epochs(learner: object) -> float:
    """Return the least epochs worth training, a batch's share; 1 for a learner that says nothing: whole ones only."""
    return float(getattr(learner, "least_epochs", 1.0))


def trainable(learner: object, epochs: float) -> float:
    """Return the epochs that a learner asked for `epochs` trains; one that knows whole ones alone rounds up.

    >>> trainable(object(), 0.5), trainable(object(), 2.0)
    (1, 2)
    """
    return epochs if least_epochs(learner) < 1.0 and epochs % 1.0 else ceil(epochs)


class Population(Protocol):
    """All clients of a simulated federation: data, and one model that a worker's clients use in turn."""

    @property
    def layout(self) -> Layout: ...

    @property
    def clients(self) -> int: ...

    @property
    def flops_per_sample(self) -> float:
        """Floating-point operations to train on one sample (forward and backward), measured on the model."""
        ...

    def initial(self, seed: int) -> tuple[FloatVector, FloatVector]:
        """Return the first model's parameters and buffers."""
        ...

    def learner(self, client: int) -> Learner: ...

    @property
    def test_samples(self) -> int: ...

    def evaluate(
        self, vector: FloatVector, buffers: FloatVector, first: int = 0, last: int | None = None
    ) -> tuple[float, float]:
        """Return (accuracy, loss) on the common test set, or on its samples `first` … `last` - 1."""
        ...


def sizes_of(population: Population) -> tuple[Sequence[int], Sequence[int]]:
    """Return the training and the held-out samples of every client, 8 bytes each.

    A population that knows them without making its learners has them as `sizes`; else its learners are asked, one at a
    time, since they may be large.
    """
    sizes: tuple[Iterable[int], Iterable[int]] | None = getattr(population, "sizes", None)
    if sizes is not None:
        return array("q", sizes[0]), array("q", sizes[1])
    both = [(one.examples, one.held_out) for one in map(population.learner, range(population.clients))]
    return array("q", (examples for examples, _ in both)), array("q", (held for _, held in both))
