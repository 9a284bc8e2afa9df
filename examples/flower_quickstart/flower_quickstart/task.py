"""Model, data, training and testing, as in any Flower app: nothing here knows about adagq."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """A small convolutional network for 8x8 images."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(16 * 16, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(images))


def load_digits_tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return training images and labels, test images and labels; every fifth sample is for testing."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    test = torch.arange(len(labels)) % 5 == 0
    return images[~test], labels[~test], images[test], labels[test]


def load_data(partition_id: int, num_partitions: int, batch_size: int) -> tuple[DataLoader, DataLoader]:
    """Return the loaders of one partition: training, and a tenth that is held out."""
    images, labels, _, _ = load_digits_tensors()
    own = torch.arange(partition_id, len(labels), num_partitions)
    held_out = own[::10]
    trained = own[torch.arange(len(own)) % 10 != 0]
    return (
        DataLoader(TensorDataset(images[trained], labels[trained]), batch_size=batch_size, shuffle=True),
        DataLoader(TensorDataset(images[held_out], labels[held_out]), batch_size=64),
    )


def load_test_data() -> DataLoader:
    """Return the loader of the common test set."""
    _, _, images, labels = load_digits_tensors()
    return DataLoader(TensorDataset(images, labels), batch_size=128)


def train(net: nn.Module, loader: DataLoader, epochs: int, lr: float) -> float:
    """Train in place and return the mean loss."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    total = 0.0
    net.train()
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(loader))


def test(net: nn.Module, loader: DataLoader) -> tuple[float, float]:
    """Return (loss, accuracy)."""
    loss, correct, seen = 0.0, 0, 0
    net.eval()
    with torch.no_grad():
        for images, labels in loader:
            outputs = net(images)
            loss += nn.functional.cross_entropy(outputs, labels, reduction="sum").item()
            correct += int((outputs.argmax(1) == labels).sum())
            seen += len(labels)
    return loss / seen, correct / seen
