"""Models as users have them, the initial arrays as Flower's examples make them: frozen, tied, own buffers, bfloat16."""

from pathlib import Path

import pytest
import torch
from flwr.app import ArrayRecord
from torch import nn

from adagq.core.errors import AdagqError
from adagq.flower import Compressed
from adagq.learners import LoopLearner, travelling_state
from loopback import LoopbackGrid
from toy import ToySpec


class Odd(nn.Module):
    """A frozen layer, two tied ones, BatchNorm, a float buffer and a counter of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)  # the frozen layer is the same everywhere, as a pretrained one is
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.second(self.norm(self.first(self.frozen(x)))) * self.scale


def train(net: nn.Module, epochs: int, lr: float) -> float:
    dtype = next(net.parameters()).dtype
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in range(3 * epochs):
        optimizer.zero_grad()
        loss = (net(x) - x).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def run(folder: Path, initial: ArrayRecord, dtype: torch.dtype, method: str = "adagq-fit", net: type = Odd):
    grid = LoopbackGrid(ToySpec(clients=2).build(), folder)
    grid.population.learner = lambda client: LoopLearner(net().to(dtype), train, examples=32)
    return Compressed(method, learning_rate=0.1, deadline_seconds=30.0).start(grid, initial, num_rounds=3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_the_state_dict_as_initial_arrays(dtype: torch.dtype, tmp_path: Path) -> None:
    net = Odd().to(dtype)
    result = run(tmp_path, ArrayRecord(net.state_dict()), dtype)
    losses = [metrics["train_loss"] for metrics in result.train_metrics_clientapp.values()]
    assert losses[-1] < losses[0]
    after = result.arrays.to_torch_state_dict()
    assert after.keys() == net.state_dict().keys()
    assert torch.equal(after["frozen.weight"], net.state_dict()["frozen.weight"])  # nobody trains it, nobody sends it
    assert torch.equal(after["first.weight"], after["second.weight"])
    assert not torch.equal(after["first.weight"], net.state_dict()["first.weight"])
    assert after["calls"] > 0
    Odd().to(dtype).load_state_dict(after)


def test_bfloat16_which_flowers_arrays_cannot_hold(tmp_path: Path) -> None:
    net = Odd().to(torch.bfloat16)
    with pytest.raises(TypeError, match="BFloat16"):
        ArrayRecord(net.state_dict())
    result = run(tmp_path, ArrayRecord(travelling_state(net)), torch.bfloat16)
    losses = [metrics["train_loss"] for metrics in result.train_metrics_clientapp.values()]
    assert losses[-1] < losses[0]
    missing, unexpected = net.load_state_dict(result.arrays.to_torch_state_dict(), strict=False)
    assert unexpected == []
    assert set(missing) == {"frozen.weight", "frozen.bias", "second.weight"}  # it has them: frozen, or tied


class Wider(Odd):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)


def test_what_cannot_work_ends_with_the_tensors_name(tmp_path: Path) -> None:
    with pytest.raises(AdagqError, match=r"none of the 2 connected nodes can take part: .*'first\.weight'"):
        run(tmp_path, ArrayRecord(Odd().state_dict()), torch.float32, net=Wider)
