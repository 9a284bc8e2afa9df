"""Somebody's own training loop as a learner."""

import numpy as np
import pytest
import torch
from torch import nn

from adagq.client.learner import trainable
from adagq.core.errors import ConfigError, DataError
from adagq.learners import FlatModule, LoopLearner


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


X = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
Y = X[:, :3].argmax(1)


def train(net: nn.Module, epochs: int, lr: float) -> float:
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=10, shuffle=True)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
    return loss.item()


def learner(**options) -> LoopLearner:
    return LoopLearner(Net(), train, examples=60, loss=lambda net: nn.functional.cross_entropy(net(X), Y), **options)


def test_the_same_seed_gives_the_same_model() -> None:
    one, other = learner(), learner()
    vector, buffers = one.dump()
    results = []
    for each in (one, other):
        each.load(vector, buffers)
        assert each.train(2, 0.1, seed=7) > 0
        results.append(each.dump())
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert not np.array_equal(results[0][0], vector)
    assert results[0][1][-1] == 12  # BatchNorm has counted its batches


def test_it_flattens_as_a_flat_module_does() -> None:
    net = Net()
    own, flat = LoopLearner(net, train, examples=1), FlatModule(net)
    assert own.layout == flat.layout
    np.testing.assert_array_equal(own.dump()[0], flat.dump()[0])


def test_a_loss_changes_nothing() -> None:
    own = learner()
    own.module.train()
    before = own.dump()
    assert own.loss() > 0
    assert own.loss() == own.loss()
    assert own.module.training
    np.testing.assert_array_equal(own.dump()[1], before[1])


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="examples"):
        LoopLearner(Net(), train, examples=0)
    with pytest.raises(DataError, match="probe"):
        LoopLearner(Net(), train, examples=1).loss()


def test_a_loop_of_ones_own_is_asked_for_parts_of_an_epoch_only_if_it_says_that_it_can() -> None:
    with pytest.raises(ConfigError, match=r"least_epochs = 0: must be above 0 and at most 1"):
        LoopLearner(nn.Linear(2, 2), lambda net, epochs, lr: None, examples=5, least_epochs=0)
    plain = LoopLearner(nn.Linear(2, 2), lambda net, epochs, lr: None, examples=5)
    able = LoopLearner(nn.Linear(2, 2), lambda net, epochs, lr: None, examples=5, least_epochs=0.1)
    assert (trainable(plain, 0.5), trainable(able, 0.5), trainable(able, 2.0)) == (1, 0.5, 2)
