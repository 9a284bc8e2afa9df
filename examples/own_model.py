"""Your own `nn.Module` and data in a simulated federation over slow, unequal links, in under 40 lines."""

import torch
from torch import nn

import adagq


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
population = adagq.TorchPopulation(Net, clients, test=my_data(1000, 999))
result = adagq.compare(
    methods=["fedavg", "adagq-fit"],
    task=population,
    training={"learning_rate": 0.1, "target": 0.9, "max_rounds": 40},
    # A model of 835 parameters on links as slow for it as a few Mbit/s are for millions.
    fleet={"uplink_mbps": (0.001, 0.004), "downlink_mbps": 0.02, "epoch_seconds": (5.0, 6.0)},
)
for method in ("fedavg", "adagq-fit"):
    rows = [row for row in result.rows if row["method"] == method]
    sent = sum(row["upload_bytes"] for row in rows)
    print(f"{method}: accuracy {rows[-1]['accuracy']:.3f} after {rows[-1]['seconds']:.0f} s, {sent} bytes uploaded")
