"""Your own `nn.Module`, data and split over slow, unequal links, in under 40 lines: `python own_model.py`, or

adagq compare --task own_model.py:build --set 'fleet={uplink_mbps=[0.001,0.004],downlink_mbps=0.02}'
adagq deploy local --nodes 2 --task own_model.py:build
"""

import torch
from torch import nn

import adagq


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def build(clients: int = 4, seed: int = 0) -> adagq.TorchPopulation:
    """Return models, data and split: every worker and every node calls this."""
    x = torch.randn(3000, 20, generator=torch.Generator().manual_seed(seed))  # tensors, arrays or a torch Dataset
    y = x[:, :3].argmax(1)
    shares = adagq.split(x[:2000], y[:2000], clients, seed=seed)  # how="dirichlet" for unlike clients
    return adagq.TorchPopulation(Net, shares, test=(x[2000:], y[2000:]))


if __name__ == "__main__":
    # A model of 835 parameters on links as slow for it as a few Mbit/s are for millions.
    links = {"uplink_mbps": (0.001, 0.004), "downlink_mbps": 0.02, "epoch_seconds": (5.0, 6.0)}
    result = adagq.compare(methods=["fedavg", "adagq-fit"], task=build, workers=2, fleet=links)
    for method in ("fedavg", "adagq-fit"):
        rows = [row for row in result.rows if row["method"] == method]
        sent = sum(row["upload_bytes"] for row in rows)
        print(f"{method}: accuracy {rows[-1]['accuracy']:.3f} after {rows[-1]['seconds']:.0f} s, {sent} bytes uploaded")
