"""Devices by name: what a machine has is found, what it has not is said; no GPU is needed for any of it."""

import os

import pytest
import torch
from torch import nn

from adagq.core.errors import ConfigError
from adagq.experiments.config import on_defaults, resolve
from adagq.learners import FlatModule, LearningTask
from adagq.learners.devices import device_of


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *_, **__: None)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)


def without_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


def test_auto_takes_the_best_there_is(monkeypatch):
    without_gpus(monkeypatch)
    assert device_of("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert device_of("auto") == device_of("mps") == torch.device("mps")


@pytest.mark.usefixtures("two_gpus")
def test_workers_share_all_gpus_or_the_one_that_is_named(monkeypatch):
    assert device_of("cuda:1") == torch.device("cuda", 1)
    for pid, index in ((100, 0), (101, 1), (102, 0)):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        assert device_of("cuda") == device_of("auto") == torch.device("cuda", index)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not torch.backends.cudnn.benchmark
    with pytest.raises(ConfigError, match=r"'cuda:2': there are 2 CUDA devices, cuda:0 to cuda:1"):
        device_of("cuda:2")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpu", r"task.device = 'gpu': must be auto, cpu, cuda, cuda:0"),
        ("cuda:-1", "must be auto"),
        ("cuda", r"'cuda': there is no CUDA device here \(torch 2"),
        ("cuda:0", "there is no CUDA device here"),
        ("mps", "finds no Apple GPU here"),
    ],
)
def test_a_device_that_is_not_there_is_said(monkeypatch, name, words):
    without_gpus(monkeypatch)
    with pytest.raises(ConfigError, match=words):
        LearningTask(clients=2, model="mlp", width=4, device=name).build()


def test_a_model_on_another_device_gets_its_batches_there():
    flat = FlatModule(nn.Linear(3, 2).to("meta"))
    inputs, targets = flat.accept(torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64))
    assert flat.device == inputs.device == targets.device == torch.device("meta")
    assert all(group.vector.device == group.gradient.device == flat.device for group in flat.groups)
    assert flat.module(inputs).shape == (4, 2)


def test_mixed_precision_learns_nearly_the_same_in_float32_weights():
    def trained(precision):
        learner = LearningTask(data="digits", model="cnn", clients=4, precision=precision).build().learner(0)
        learner.train(2, 0.05, seed=3)
        return learner.dump()[0]

    full, mixed = trained("float32"), trained("bfloat16")
    assert mixed.dtype == full.dtype == "float32"
    assert (mixed == trained("bfloat16")).all()  # the same each time
    distance = abs(mixed - full).max()
    assert 0.0 < distance < 0.1 * abs(full).max()


def test_an_unknown_precision_is_named():
    with pytest.raises(ConfigError, match=r"task\.precision"):
        resolve(on_defaults({"task": {"precision": "float8"}}))
