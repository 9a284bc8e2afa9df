"""Model, data, training and testing; nothing here knows about adagq."""

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812 as everyone calls it
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """A small convolutional network."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.view(-1, 16 * 5 * 5)
        return self.fc2(F.relu(self.fc1(x)))


def drawn(samples: int, seed: int) -> TensorDataset:
    """Noise with a bright quarter; which one is the label."""
    source = torch.Generator().manual_seed(seed)
    images = torch.randn(samples, 3, 32, 32, generator=source)
    labels = torch.randint(0, 4, (samples,), generator=source)
    for quarter in range(4):
        row, column = 16 * (quarter // 2), 16 * (quarter % 2)
        images[labels == quarter, :, row : row + 16, column : column + 16] += 1.0
    return TensorDataset(images, labels)


def load_data(partition_id: int, num_partitions: int, batch_size: int):
    """Load one partition."""
    trainloader = DataLoader(drawn(160, partition_id), batch_size=batch_size, shuffle=True)
    testloader = DataLoader(drawn(40, num_partitions + partition_id), batch_size=batch_size)
    return trainloader, testloader


def load_centralized_dataset():
    """Load the test set of the server."""
    return DataLoader(drawn(200, 1000), batch_size=128)


def train(net, trainloader, epochs, lr, device):
    """Train the model on the training set."""
    net.to(device)
    criterion = torch.nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    running_loss = 0.0
    for _ in range(epochs):
        for images, labels in trainloader:
            optimizer.zero_grad()
            loss = criterion(net(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
    return running_loss / (epochs * len(trainloader))


def test(net, testloader, device):
    """Validate the model on the test set."""
    net.to(device)
    criterion = torch.nn.CrossEntropyLoss()
    correct, loss = 0, 0.0
    with torch.no_grad():
        for images, labels in testloader:
            outputs = net(images.to(device))
            loss += criterion(outputs, labels.to(device)).item()
            correct += (torch.max(outputs.data, 1)[1] == labels.to(device)).sum().item()
    return loss / len(testloader), correct / len(testloader.dataset)
