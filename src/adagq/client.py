"""What a client does: apply the aggregate, probe, train, encode (steps 2, 3a and 5 of a round).

The same code runs in the simulator's workers and on real nodes. Everything that knows about models and data is
behind `Learner`; torch is not imported here.
"""

from typing import Protocol

from adagq.vectors import FloatVector, Layout


class Learner(Protocol):
    """One client's model and data. `learners/` has the torch one; a user's own needs only these members."""

    @property
    def layout(self) -> Layout: ...

    @property
    def examples(self) -> int:
        """Training samples of this client: its weight in the average."""
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
        """Return the loss on this client's held-out samples (always the same ones), without changing anything."""
        ...


class Population(Protocol):
    """All clients of a simulated federation: data and one model, shared by the clients that a worker plays in turn."""

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

    def evaluate(self, vector: FloatVector, buffers: FloatVector) -> tuple[float, float]:
        """Return (accuracy, loss) on the common test set."""
        ...
