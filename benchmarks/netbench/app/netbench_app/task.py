"""A wide two-layer network in NumPy: large to send, quick to train, and nothing heavy to import in every process.

Devices are played: what a device would need longer than this machine for its samples it sleeps (`epoch_seconds`).
"""

import time
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector, Layout
from adagq.data.partitions import hold_out, partition

CLASSES = 10
BATCH = 32
SHARE = 200  # samples of a client
FORWARD_SHARE = 1 / 3  # of a sample's training: what its loss alone takes, as in the simulator
Model = dict[str, np.ndarray]
Samples = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Task:
    """What the federation learns: the digits at `path`, unlike on every client, with so many hidden units."""

    path: str
    clients: int
    hidden: int
    alpha: float = 0.5  # of the Dirichlet split: how unlike the clients' labels are
    seed: int = 0  # draws partition and first model

    @property
    def flops_per_sample(self) -> float:
        return 6.0 * (64 + CLASSES) * self.hidden

    @property
    def layout(self) -> Layout:
        return Layout.of(self.first())

    def first(self) -> Model:
        """Return the first model."""
        rng = generator(self.seed, "netbench")
        return {
            "first.weight": rng.normal(0, (2 / 64) ** 0.5, (64, self.hidden)).astype(np.float32),
            "first.bias": np.zeros(self.hidden, np.float32),
            "second.weight": rng.normal(0, (1 / self.hidden) ** 0.5, (self.hidden, CLASSES)).astype(np.float32),
            "second.bias": np.zeros(CLASSES, np.float32),
        }

    def share(self, client: int) -> tuple[Samples, Samples]:
        """Return a client's training samples and those that it holds out."""
        images, labels, _, _ = load(self.path)
        own = partition("dirichlet", self.alpha, labels, self.clients, self.seed, SHARE)[client]
        learn, held = hold_out(own, 0.1, 256, self.seed, client)
        return (images[learn], labels[learn]), (images[held], labels[held])


def load(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training images and labels, test images and labels; every fifth sample is for testing."""
    with np.load(path) as file:
        images, labels = file["images"].reshape(-1, 64).astype(np.float32) / 16, file["labels"]
    test = np.arange(len(labels)) % 5 == 0
    return images[~test], labels[~test], images[test], labels[test]


def forward(model: Model, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return hidden activations and class probabilities."""
    hidden = np.maximum(images @ model["first.weight"] + model["first.bias"], 0)
    logits = hidden @ model["second.weight"] + model["second.bias"]
    logits -= logits.max(axis=1, keepdims=True)
    exponentials = np.exp(logits)
    return hidden, exponentials / exponentials.sum(axis=1, keepdims=True)


def scores(model: Model, images: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return (accuracy, loss)."""
    _, chances = forward(model, images)
    loss = -np.log(chances[np.arange(len(labels)), labels] + 1e-12).mean()
    return float((chances.argmax(axis=1) == labels).mean()), float(loss)


def train(model: Model, images: np.ndarray, labels: np.ndarray, epochs: float, lr: float, seed: int) -> float:
    """Plain SGD, in place, the last epoch in part if they are not whole; return the mean loss."""
    losses = []
    for epoch in range(ceil(epochs)):
        order = generator(seed, "shuffle", epoch).permutation(len(labels))
        order = order[: ceil((epochs - epoch) * len(order))]
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            hidden, chances = forward(model, images[rows])
            losses.append(float(-np.log(chances[np.arange(len(rows)), labels[rows]] + 1e-12).mean()))
            chances[np.arange(len(rows)), labels[rows]] -= 1
            chances *= lr / len(rows)
            back = (chances @ model["second.weight"].T) * (hidden > 0)
            model["second.weight"] -= hidden.T @ chances
            model["second.bias"] -= chances.sum(axis=0)
            model["first.weight"] -= images[rows].T @ back
            model["first.bias"] -= back.sum(axis=0)
    return float(np.mean(losses))


@dataclass
class NumpyLearner:
    """One client's model and samples; its device needs `epoch_seconds` for an epoch, or what this machine needs."""

    task: Task
    client: int
    epoch_seconds: float = 0.0
    model: Model = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._own, self._held = self.task.share(self.client)
        self.examples, self.held_out = len(self._own[1]), len(self._held[1])
        self.model = self.task.first()
        self.layout = Layout.of(self.model)

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        self.model = {name: array.copy() for name, array in self.layout.unpack(vector, buffers).items()}

    def dump(self) -> tuple[FloatVector, FloatVector]:
        return self.layout.pack(self.model)

    @property
    def least_epochs(self) -> float:
        return min(BATCH / self.examples, 1.0)

    def train(self, epochs: float, learning_rate: float, seed: int) -> float:
        begun = time.perf_counter()
        loss = train(self.model, *self._own, epochs, learning_rate, seed)
        self._sleep(begun, epochs * self.epoch_seconds)
        return loss

    def loss(self) -> float:
        begun = time.perf_counter()
        loss = scores(self.model, *self._held)[1]
        self._sleep(begun, self.epoch_seconds * self.held_out / self.examples * FORWARD_SHARE)
        return loss

    def _sleep(self, begun: float, seconds: float) -> None:
        """Play a device that needs so long."""
        time.sleep(max(begun + seconds - time.perf_counter(), 0.0))


class Clients:
    """All clients of a simulated federation: `adagq.client.learner.Population`, at this machine's own speed."""

    def __init__(self, task: Task) -> None:
        self.task, self.clients, self.layout = task, task.clients, task.layout
        self.flops_per_sample = task.flops_per_sample
        self._learners = [NumpyLearner(task, client) for client in range(task.clients)]
        *_, self._images, self._labels = load(task.path)
        self.test_samples = len(self._labels)

    def initial(self, seed: int) -> tuple[FloatVector, FloatVector]:
        return self.layout.pack(self.task.first())

    def learner(self, client: int) -> NumpyLearner:
        return self._learners[client]

    def evaluate(
        self, vector: FloatVector, buffers: FloatVector, first: int = 0, last: int | None = None
    ) -> tuple[float, float]:
        model = self.layout.unpack(vector, buffers)
        return scores(model, self._images[first:last], self._labels[first:last])
