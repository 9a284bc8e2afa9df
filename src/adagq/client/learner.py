"""What a user's own model and data must offer: `Learner` for one client, `Population` for all of a simulation."""

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

    def train(self, epochs: int, learning_rate: float, seed: int) -> float:
        """Run local SGD and return the mean training loss; the same seed gives the same result."""
        ...

    def loss(self) -> float:
        """Return the loss on this client's held-out samples: always the same ones; nothing is changed."""
        ...


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
