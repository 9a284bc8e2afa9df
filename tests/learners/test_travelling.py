"""Precisions, tied weights, frozen layers: both learners flatten a module by the same rule, and train it."""

import numpy as np
import pytest
import torch
from torch import nn

from adagq.core.vectors import Layout
from adagq.learners import FlatModule, LoopLearner, TorchLearner, travelling_state

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
Y = X[:, :3].argmax(1)
LOW = [torch.float16, torch.bfloat16, torch.float64]


class Net(nn.Module):
    """Tied weights, a frozen layer, BatchNorm, float and integer buffers of its own, one of them not stored."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.again = nn.Linear(4, 4)
        self.again.weight = self.first.weight
        self.head = nn.Linear(4, 3)
        self.register_buffer("scale", torch.ones(2))
        self.register_buffer("scratch", torch.zeros(9), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.again(self.frozen(self.norm(self.first(x)))) * self.scale[0])


NAMES = ["first.weight", "first.bias", "norm.weight", "norm.bias", "again.bias", "head.weight", "head.bias"]
BUFFERS = ["scale", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]


def step(net: nn.Module, epochs: int, rate: float) -> None:
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=rate)
    for _ in range(epochs):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(X.to(net.head.weight.dtype)), Y).backward()
        optimizer.step()


def test_the_layout_has_what_is_trained_once_and_what_is_stored() -> None:
    layout = FlatModule(Net()).layout
    assert [tensor.name for tensor in layout.tensors if not tensor.buffer] == NAMES
    assert [tensor.name for tensor in layout.tensors if tensor.buffer] == BUFFERS
    assert LoopLearner(Net(), step, examples=60).layout == layout
    state = travelling_state(Net())
    assert Layout.of(state, buffers=BUFFERS) == layout


@pytest.mark.parametrize("dtype", [torch.float32, *LOW], ids=str)
def test_every_precision_travels_as_float32_and_comes_back(dtype: torch.dtype) -> None:
    plain = FlatModule(Net()).layout
    for learner in (TorchLearner(Net().to(dtype), (X, Y)), LoopLearner(Net().to(dtype), step, examples=60)):
        assert learner.layout == plain
        vector, buffers = learner.dump()
        assert vector.dtype == buffers.dtype == np.float32
        learner.load(vector / 2, buffers)
        # Halves are exact in every binary format.
        np.testing.assert_array_equal(learner.dump()[0], vector / 2)
        np.testing.assert_array_equal(learner.dump()[1], buffers)


@pytest.mark.parametrize("dtype", [torch.float32, *LOW], ids=str)
def test_every_precision_is_trained_and_evaluated(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    net = Net().to(dtype)
    frozen = net.frozen.weight.clone()
    learner = TorchLearner(net, (X, Y), held_out=(X, Y), batch_size=20, momentum=0.5, weight_decay=1e-4)
    before = learner.loss()
    assert np.isfinite(learner.train(20, 0.1, seed=1))
    assert learner.loss() < before
    assert torch.equal(net.frozen.weight, frozen)
    assert net.again.weight is net.first.weight
    assert net.first.weight.dtype is dtype


def test_a_tied_weight_is_trained_as_torch_trains_it() -> None:
    torch.manual_seed(1)
    net, other = Net(), Net()
    other.load_state_dict(net.state_dict())
    learner = TorchLearner(net, (X, Y), batch_size=60)
    learner.train(1, 0.1, seed=1)
    other.train()
    step(other, 1, 0.1)
    expected = LoopLearner(other, step, examples=60).dump()[0]
    np.testing.assert_allclose(learner.dump()[0], expected, atol=1e-6)


def test_a_module_of_several_precisions_keeps_the_order_of_its_parameters() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 5)
            self.middle = nn.Linear(5, 6).to(torch.bfloat16)
            self.last = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.middle(self.first(x).to(torch.bfloat16)).float())

    torch.manual_seed(1)
    net = Mixed()
    expected = np.concatenate([p.detach().float().numpy().reshape(-1) for p in net.parameters()])
    learner = TorchLearner(net, (X, Y), held_out=(X, Y))
    np.testing.assert_array_equal(learner.dump()[0], expected)
    learner.load(expected * 2, np.zeros(0, np.float32))
    np.testing.assert_array_equal(learner.dump()[0], expected * 2)
    before = learner.loss()
    learner.train(5, 0.1, seed=1)
    assert learner.loss() < before
    changed = learner.dump()[0] != expected * 2
    assert changed[:25].any()
    assert changed[25:61].any()
    assert changed[61:].any()
