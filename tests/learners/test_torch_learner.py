"""The torch learner keeps the protocols: load and dump are exact, training is a function of its seed."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from adagq.client.learner import Learner, Population, trainable
from adagq.core.errors import DataError, LayoutError
from adagq.learners import FlatModule, LearningTask, Samples, TorchLearner, TorchPopulation
from adagq.learners.samples import batches

SMALL = LearningTask(data="synthetic", model="resnet18", width=4, stem="imagenet", clients=4, samples=400, classes=4)


@pytest.fixture(scope="module")
def population() -> TorchPopulation:
    return SMALL.build()


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


def data(samples: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(samples, 6, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :3].argmax(1)


def test_protocols_are_kept(population):
    whole: Population = population
    learner: Learner = population.learner(0)
    assert whole.clients == 4
    assert learner.layout is whole.layout
    assert learner.examples == 90
    assert whole.flops_per_sample > 1e5


def test_load_and_dump_are_exact(population):
    learner = population.learner(1)
    vector = np.random.default_rng(0).standard_normal(population.layout.elements).astype(np.float32)
    buffers = np.arange(population.layout.buffer_elements, dtype=np.float32)
    vector.flags.writeable = buffers.flags.writeable = False  # as arrays out of a payload are
    learner.load(vector, buffers)
    got = learner.dump()
    np.testing.assert_array_equal(got[0], vector)
    np.testing.assert_array_equal(got[1], buffers)
    got[0][:] = 0  # a copy: the model does not see this
    np.testing.assert_array_equal(learner.dump()[0], vector)


def test_the_vector_is_the_module_in_its_layout():
    flat = FlatModule(net())
    for _ in range(3):
        flat.module(torch.randn(5, 6))  # moves the statistics and the batch counter
    state = flat.layout.unpack(*flat.dump())
    assert state.keys() == flat.module.state_dict().keys()
    for name, tensor in flat.module.state_dict().items():
        np.testing.assert_array_equal(state[name], tensor.numpy())
    assert state["1.num_batches_tracked"] == 3


def test_clients_share_one_model_and_take_turns(population):
    vector, buffers = population.initial(0)
    results = []
    for order in ((0, 1, 2), (2, 0, 1)):
        dumps = {}
        for client in order:
            learner = population.learner(client)
            learner.load(vector, buffers)
            learner.train(1, 0.05, seed=client)
            dumps[client] = learner.dump()[0].tobytes()
        results.append(dumps)
    assert results[0] == results[1]
    assert len(set(results[0].values())) == 3


PROGRAM = """
import hashlib
from adagq.learners import LearningTask
population = LearningTask(data="synthetic", model="resnet18", width=4, stem="imagenet", clients=4, samples=400,
                      classes=4).build()
learner = population.learner(2)
learner.load(*population.initial(3))
loss = learner.train(2, 0.05, seed=7)
vector, buffers = learner.dump()
print(hashlib.sha256(vector.tobytes() + buffers.tobytes()).hexdigest(), loss.hex(), learner.loss().hex())
"""


def test_training_is_bit_identical_in_every_process(capsys):
    there = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    exec(PROGRAM, {})
    assert capsys.readouterr().out == there


def test_the_seed_decides_shuffles_and_dropout_and_nothing_else():
    learner = TorchLearner(net(), data(100), batch_size=100)
    start = learner.dump()

    def run(seed: int) -> bytes:
        learner.load(*start)
        learner.train(2, 0.1, seed)
        return learner.dump()[0].tobytes()

    torch.manual_seed(1)
    first = run(5)
    before = torch.get_rng_state()
    assert run(5) == first != run(6)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.01), (0.9, 0.01)])
def test_sgd_is_torchs(momentum, decay):
    module = nn.Linear(6, 3)
    x, y = data(64)
    learner = TorchLearner(module, (x, y), batch_size=64, momentum=momentum, weight_decay=decay)
    twin = nn.Linear(6, 3)
    twin.load_state_dict(module.state_dict())
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=momentum, weight_decay=decay)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(twin(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert learner.train(5, 0.1, seed=0) == pytest.approx(np.mean(losses), rel=1e-5)
    for ours, torchs in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("samples", "batch_size", "expected"),
    [
        (64, 32, [32, 32]),
        (65, 32, [32, 32]),
        (71, 32, [32, 32]),
        (72, 32, [32, 32, 8]),
        (5, 32, [5]),
        (1, 32, [1]),
        (10, 4, [4, 4]),
        (11, 4, [4, 4, 3]),
        (3, 2, [2]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_a_last_batch_that_is_too_small_is_dropped(samples, batch_size, expected):
    assert [len(part) for part in batches(torch.arange(samples), batch_size)] == expected


@pytest.mark.parametrize(
    ("samples", "share", "expected"),
    [
        (64, 0.5, [32]),
        (100, 0.5, [25, 25]),
        (100, 0.4, [40]),
        (3000, 0.25, [33] * 14 + [32] * 9),
        (100, 0.001, [3]),
        (2, 0.5, [2]),
    ],
)
def test_a_part_of_an_epoch_has_batches_of_about_the_same_size(samples, share, expected):
    assert [len(part) for part in batches(torch.arange(samples), 32, share)] == expected


def test_half_an_epoch_sees_half_of_the_samples_and_one_and_a_half_the_rest_too():
    seen = []

    class Counted(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            seen.extend(inputs[:, 0].tolist())
            return super().forward(inputs)

    inputs = torch.arange(100.0)[:, None].repeat(1, 6)
    learner = TorchLearner(Counted(6, 3), (inputs, torch.zeros(100, dtype=torch.int64)), batch_size=20)
    assert learner.least_epochs == 0.2
    for epochs, samples, different in ((0.5, 50, 50), (1.5, 150, 100), (2, 200, 100), (0.25, 25, 25)):
        seen.clear()
        learner.train(epochs, 1e-6, seed=1)
        assert (len(seen), len(set(seen))) == (samples, different)


def test_a_client_of_one_batch_trains_the_part_that_the_clock_counts() -> None:
    learner = TorchLearner(nn.Linear(6, 3), data(20), batch_size=32)
    assert 0.5 < learner.least_epochs < 1.0
    assert trainable(learner, 0.5) == 0.5


@pytest.mark.parametrize("samples", [33, 34])
def test_stray_samples_do_not_wreck_batchnorm(population, samples):
    """One sample has no variance in a ResNet's 1x1 maps (an error in torch), two have next to none."""
    learner = population.learner(0)
    stray = TorchLearner(learner.model, learner._train.take(range(samples)), learner._held_out)
    stray.load(*population.initial(0))
    before = stray.loss()
    stray.train(5, 0.01, seed=0)
    assert stray.loss() < before  # with the last batch of two it is 3.7 times as large


def test_loss_and_evaluate_change_nothing(population):
    learner = population.learner(0)
    vector, buffers = population.initial(1)
    learner.load(vector, buffers)
    assert learner.loss() == learner.loss()
    assert population.evaluate(vector, buffers) == population.evaluate(vector, buffers)
    after = learner.dump()
    np.testing.assert_array_equal(after[0], vector)
    np.testing.assert_array_equal(after[1], buffers)


@pytest.mark.parametrize(("model", "width"), [("resnet18", 8), ("googlenet", 8), ("cnn", 8), ("mlp", 32)])
def test_every_model_learns_the_synthetic_data(model, width):
    easy = LearningTask(data="synthetic", shape=(1, 8, 8), classes=4, samples=800, partition="iid", clients=1)
    population = replace(easy, model=model, width=width).build()
    learner = population.learner(0)
    learner.load(*population.initial(0))
    first = population.evaluate(*learner.dump())
    losses = [learner.train(1, 0.05, seed) for seed in range(2)]
    accuracy, loss = population.evaluate(*learner.dump())
    assert losses[1] < losses[0]
    assert accuracy > 0.8 > first[0]
    assert loss < first[1]


def test_initial_models_follow_their_seed(population):
    one, again, other = (population.initial(seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_a_population_survives_pickling(population):
    copy = pickle.loads(pickle.dumps(population))
    results = []
    for each in (population, copy):
        learner = each.learner(3)
        learner.load(*each.initial(0))
        learner.train(1, 0.05, seed=1)
        results.append(learner.dump()[0].tobytes())
    assert results[0] == results[1]
    assert copy.learner(0).model is copy.learner(3).model


def test_samples_accept_arrays_tensors_and_datasets():
    x, y = data(12)
    dataset = torch.utils.data.TensorDataset(x, y)
    for given in ((x, y), (x.numpy(), y.numpy()), [x, y], dataset, [(x[i], int(y[i])) for i in range(12)]):
        samples = Samples.of(given)
        got = samples.batch(samples.index)
        assert torch.equal(got[0], x)
        assert torch.equal(got[1], y)


def test_tied_frozen_and_scratch_tensors_travel_once_or_not_at_all():
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(6, 6, bias=False)
            self.b = nn.Linear(6, 6, bias=False)
            self.b.weight = self.a.weight
            self.frozen = nn.Linear(6, 3).requires_grad_(False)
            self.register_buffer("scratch", torch.zeros(9), persistent=False)

        def forward(self, x):
            return self.frozen(self.b(self.a(x)))

    learner = TorchLearner(Odd(), data(40))
    assert (learner.layout.elements, learner.layout.buffer_elements) == (36, 0)
    before = learner.dump()[0]
    learner.train(1, 0.1, seed=0)
    assert not np.array_equal(learner.dump()[0], before)


def test_mistakes_are_named():
    module = net()
    learner = TorchLearner(module, data(20))
    with pytest.raises(DataError, match="no held-out samples"):
        learner.loss()
    with pytest.raises(LayoutError, match=r"vector: shape \(3,\), the model needs \(99,\)"):
        learner.load(np.zeros(3, np.float32), np.zeros(17, np.float32))
    with pytest.raises(DataError, match="at least one training sample"):
        TorchLearner(net(), data(0))
    with pytest.raises(DataError, match="3 inputs, 2 targets"):
        Samples.of((torch.zeros(3, 1), torch.zeros(2)))
    with pytest.raises(LayoutError, match="weight: complex numbers do not travel"):
        FlatModule(nn.Linear(2, 2, dtype=torch.complex64))
    with pytest.raises(LayoutError, match="no trainable parameters"):
        FlatModule(nn.ReLU())
    FlatModule(module)  # wrapped a second time: the first wrapper has lost it
    with pytest.raises(LayoutError, match="wrap it once"):
        learner.dump()
