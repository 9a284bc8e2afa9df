"""Your own `nn.Module` and data as clients of a federation, in under 40 lines: one round by hand."""

import numpy as np
import torch
from torch import nn

from adagq.codecs import Float32, decode_into
from adagq.learners import TorchPopulation


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def my_data(samples: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(samples, 20, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :3].argmax(1)  # any pair of tensors or arrays, or a map-style torch Dataset


clients = [(my_data(300, seed), my_data(30, 100 + seed)) for seed in range(4)]  # (training, held-out)
federation = TorchPopulation(Net, clients, test=my_data(1000, 999))
model, buffers = federation.initial(seed=1)
print(f"before: accuracy {federation.evaluate(model, buffers)[0]:.3f}")

# One round of what a backend does: train everywhere, send updates as bytes, average. Any codec goes here.
average, average_buffers = np.zeros_like(model), np.zeros_like(buffers)
for client in range(federation.clients):
    learner = federation.learner(client)
    learner.load(model, buffers)
    learner.train(epochs=5, learning_rate=0.1, seed=client)
    trained, statistics = learner.dump()
    decode_into(Float32().encode(model - trained), average, weight=1 / federation.clients)
    average_buffers += statistics / federation.clients
print(f"after:  accuracy {federation.evaluate(model - average, average_buffers)[0]:.3f}")
