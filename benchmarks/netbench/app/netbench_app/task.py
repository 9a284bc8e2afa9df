"""A wide two-layer network in NumPy: large to send, quick to train, and nothing heavy to import in every process."""

from dataclasses import dataclass, field

import numpy as np

from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector, Layout

CLASSES = 10
BATCH = 32


def initial(hidden: int) -> dict[str, np.ndarray]:
    """Return the first model."""
    rng = generator(0, "netbench")
    return {
        "first.weight": rng.normal(0, (2 / 64) ** 0.5, (64, hidden)).astype(np.float32),
        "first.bias": np.zeros(hidden, np.float32),
        "second.weight": rng.normal(0, (1 / hidden) ** 0.5, (hidden, CLASSES)).astype(np.float32),
        "second.bias": np.zeros(CLASSES, np.float32),
    }


def load(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training images and labels, test images and labels; every fifth sample is for testing."""
    with np.load(path) as file:
        images, labels = file["images"].reshape(-1, 64).astype(np.float32) / 16, file["labels"]
    test = np.arange(len(labels)) % 5 == 0
    return images[~test], labels[~test], images[test], labels[test]


def forward(model: dict[str, np.ndarray], images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return hidden activations and class probabilities."""
    hidden = np.maximum(images @ model["first.weight"] + model["first.bias"], 0)
    logits = hidden @ model["second.weight"] + model["second.bias"]
    logits -= logits.max(axis=1, keepdims=True)
    exponentials = np.exp(logits)
    return hidden, exponentials / exponentials.sum(axis=1, keepdims=True)


def test(model: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return (loss, accuracy)."""
    _, chances = forward(model, images)
    loss = -np.log(chances[np.arange(len(labels)), labels] + 1e-12).mean()
    return float(loss), float((chances.argmax(axis=1) == labels).mean())


def train(
    model: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray, epochs: int, lr: float, seed: int
) -> None:
    """Plain SGD, in place."""
    for epoch in range(epochs):
        order = generator(seed, "shuffle", epoch).permutation(len(labels))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            hidden, chances = forward(model, images[rows])
            chances[np.arange(len(rows)), labels[rows]] -= 1
            chances /= len(rows)
            back = (chances @ model["second.weight"].T) * (hidden > 0)
            model["second.weight"] -= lr * (hidden.T @ chances)
            model["second.bias"] -= lr * chances.sum(axis=0)
            model["first.weight"] -= lr * (images[rows].T @ back)
            model["first.bias"] -= lr * back.sum(axis=0)


@dataclass
class NumpyLearner:
    """One node's share: partition `partition` of `partitions`."""

    data: str
    hidden: int
    partition: int
    partitions: int
    model: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        images, labels, _, _ = load(self.data)
        own = np.arange(self.partition, len(labels), self.partitions)
        held = own[::10]
        own = own[np.arange(len(own)) % 10 != 0]
        self._own, self._held = (images[own], labels[own]), (images[held], labels[held])
        self.examples, self.held_out = len(own), len(held)
        self.model = initial(self.hidden)
        self.layout = Layout.of(self.model)

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        self.model = {name: array.copy() for name, array in self.layout.unpack(vector, buffers).items()}

    def dump(self) -> tuple[FloatVector, FloatVector]:
        return self.layout.pack(self.model)

    def train(self, epochs: int, learning_rate: float, seed: int) -> float:
        train(self.model, *self._own, epochs, learning_rate, seed)
        return test(self.model, *self._own)[0]

    def loss(self) -> float:
        return test(self.model, *self._held)[0]
