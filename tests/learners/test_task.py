"""A task in plain fields builds a population, or says which field cannot be."""

import subprocess
import sys

import pytest
import torch

from adagq.errors import ConfigError, DataError
from adagq.learners import TaskSpec


def test_flops_of_the_mlp_are_the_ones_on_paper():
    population = TaskSpec(model="mlp", width=10, clients=2).build()
    # 2 per weight forward, 4 backward, but nothing flows back into the images.
    assert population.flops_per_sample == 6 * (64 * 10 + 10 * 10 + 10 * 10) - 2 * 64 * 10


def test_images_are_normalised_batch_by_batch_and_stay_as_stored():
    population = TaskSpec(clients=5, model="mlp", width=4).build()
    samples = population._test
    assert samples.inputs.dtype is torch.uint8
    kept = samples.inputs.clone()
    images, _ = samples.batch(samples.index)
    assert abs(images.mean()) < 0.05
    assert abs(images.std() - 1) < 0.05
    assert torch.equal(samples.inputs, kept)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"batch_size": 1}, ConfigError, "batch_size: 1 is below 2"),
        ({"momentum": 1.0}, ConfigError, "momentum: 1.0"),
        ({"weight_decay": -1.0}, ConfigError, "weight_decay: -1.0"),
        ({"test_samples": 0}, ConfigError, "test_samples: 0"),
        ({"test_samples": 361}, DataError, "361 asked, digits has 360"),
        ({"model": "vgg"}, ConfigError, "'vgg' is unknown"),
        ({"data": "mnist"}, ConfigError, "'mnist' is unknown"),
        ({"samples_per_client": 80}, DataError, "20 clients x 80 samples need 1600 training samples"),
        ({"samples_per_client": 2}, DataError, "20 clients x 2 samples leave 1 to train on"),
    ],
)
def test_impossible_tasks_are_named(fields, error, words):
    with pytest.raises(error, match=words):
        TaskSpec(**fields).build()


def test_the_default_task_is_small_and_whole():
    population = TaskSpec(test_samples=100).build()
    assert population.clients == 20
    assert len({population.learner(i).examples for i in range(20)}) == 1
    assert population.learner(0).examples > 60
    assert len(population._test) == 100


def test_a_spec_does_not_import_torch():
    code = "import sys; from adagq.learners import TaskSpec; hash(TaskSpec()); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
