"""A task in plain fields builds a population, or says which field cannot be."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from adagq.core.errors import ConfigError, DataError
from adagq.experiments.config import resolve
from adagq.experiments.runner import run
from adagq.learners import LearningTask


def test_flops_of_the_mlp_are_the_ones_on_paper():
    population = LearningTask(model="mlp", width=10, clients=2).build()
    # 2 per weight forward, 4 backward, but nothing flows back into the images.
    assert population.flops_per_sample == 6 * (64 * 10 + 10 * 10 + 10 * 10) - 2 * 64 * 10


def test_images_are_normalised_batch_by_batch_and_stay_as_stored():
    population = LearningTask(clients=5, model="mlp", width=4).build()
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
        ({"batch_size": 1}, ConfigError, "task.batch_size = 1: must be a whole number >= 2"),
        ({"momentum": 1.0}, ConfigError, "task.momentum = 1.0: must be a number >= 0 and < 1"),
        ({"weight_decay": -1.0}, ConfigError, "task.weight_decay = -1.0: must be a number >= 0"),
        ({"test_samples": 0}, ConfigError, "task.test_samples = 0: must be a whole number >= 1"),
        ({"test_samples": 361}, DataError, "361 asked, digits has 360"),
        ({"model": "vgg"}, ConfigError, "unknown model 'vgg'"),
        ({"data": "mnist"}, ConfigError, "unknown data set 'mnist': did you mean 'fashion-mnist'"),
        ({"samples_per_client": 80}, DataError, "20 clients x 80 samples need 1600 training samples"),
        ({"samples_per_client": 2}, DataError, "20 clients x 2 samples leave 1 to train on"),
    ],
)
def test_impossible_tasks_are_named(fields, error, words):
    with pytest.raises(error, match=words):
        LearningTask(**fields).build()


def test_the_default_task_is_small_and_whole():
    population = LearningTask(test_samples=100).build()
    assert population.clients == 20
    assert len({population.learner(i).examples for i in range(20)}) == 1
    assert population.learner(0).examples > 60
    assert len(population._test) == 100


def test_a_task_does_not_import_torch():
    code = (
        "import sys; from adagq.learners import LearningTask; hash(LearningTask()); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tokens_are_predicted_and_counted_one_by_one():
    task = LearningTask(data="characters", model="lstm", width=16, partition="contiguous", clients=4, samples=400)
    population = task.build()
    vector, buffers = population.initial(0)
    accuracy, loss = population.evaluate(vector, buffers)
    assert 0 <= accuracy < 0.3
    assert loss == pytest.approx(np.log(30), rel=0.1)
    learner = population.learner(0)
    learner.load(vector, buffers)
    learner.train(4, 1.0, seed=1)
    later, _ = population.evaluate(*learner.dump())
    assert later > accuracy
    assert later * 100 * 32 == pytest.approx(round(later * 100 * 32))
    # Forward and backward through the recurrent weights at least: 6 operations a weight and token.
    assert population.flops_per_sample > 6 * 32 * 4 * 16 * 16


def test_tables_are_normalised_per_feature_and_learned():
    population = LearningTask(data="wine", model="mlp", width=16, clients=3, partition="iid", batch_size=8).build()
    inputs, _ = population.learner(0)._train.batch(torch.arange(142))
    torch.testing.assert_close(inputs.mean(0), torch.zeros(13), atol=1e-4, rtol=0)
    torch.testing.assert_close(inputs.std(0), torch.ones(13), atol=0.01, rtol=0)
    learner = population.learner(0)
    learner.load(*population.initial(0))
    learner.train(10, 0.1, seed=1)
    assert population.evaluate(*learner.dump())[0] > 0.8


def test_channels_last_computes_the_same_up_to_rounding():
    task = LearningTask(data="synthetic", model="resnet18", width=4, stem="stride2", clients=2, samples=100)
    vectors = []
    for each in (task, replace(task, channels_last=True)):
        population = each.build()
        learner = population.learner(0)
        learner.load(*population.initial(0))
        learner.train(1, 0.01, seed=1)
        vectors.append(learner.dump()[0])
    images, _ = population.learner(0)._train.batch(torch.arange(4))
    assert images.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(*vectors, atol=1e-3)


@pytest.mark.parametrize(
    "settings",
    [
        {"data": "characters", "model": "lstm", "width": 8, "partition": "contiguous", "samples": 200},
        {"data": "breast-cancer", "model": "mlp", "width": 8},
    ],
    ids=["text", "table"],
)
def test_two_rounds_of_text_and_tables(settings, tmp_path):
    tree = {"methods": ["adagq-fit", "topk"], "training": {"max_rounds": 2, "target": 1.0}, "task": settings}
    steps = list(run(resolve(tree | {"fleet": {"clients": 4}}), tmp_path / "run", workers=2))
    assert [step.row["round"] for step in steps] == [1, 2, 1, 2]
    assert all(0 < step.row["accuracy"] <= 1 for step in steps)
