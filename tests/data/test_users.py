"""Data with users of their own: generated ones, drawn when they are asked for, and the roles of plays."""

import numpy as np
import pytest

from adagq.core.errors import ConfigError, DataError
from adagq.data import DATASETS, DataOptions, load_data
from adagq.data.lazy_shares import spread_sizes
from adagq.data.partitions import dirichlet, iid, natural
from adagq.data.shakespeare import UNKNOWN, _windows, speeches
from adagq.learners import LearningTask

SMALL = {"shape": (1, 8, 8), "model": "mlp", "width": 4, "partition": "natural", "test_samples": 50}


def test_users_have_sizes_classes_and_a_style_of_their_own():
    data = DATASETS["users"](DataOptions(clients=500, shape=(1, 8, 8), seed=3))
    assert data.sizes.min() >= 4
    assert data.sizes.max() > 4 * np.median(data.sizes) > 0
    inputs, labels = data.draw(7)
    assert len(inputs) == len(labels) == data.sizes[7]
    again = DATASETS["users"](DataOptions(clients=500, shape=(1, 8, 8), seed=3)).draw(7)
    assert np.array_equal(inputs, again[0])
    assert not np.array_equal(data.draw(8)[0][:4], inputs[:4])
    classes = [np.unique(data.draw(user)[1]).size for user in range(60)]
    assert 1 <= np.median(classes) <= 6
    assert set(np.bincount(data.test_labels)) == {400}


def test_a_learner_of_a_user_is_made_when_it_is_asked_for_and_can_learn():
    population = LearningTask(data="users", clients=2000, **SMALL).build()
    examples, held_out = population.sizes
    learner = population.learner(1234)
    assert (learner.examples, learner.held_out) == (examples[1234], held_out[1234])
    learner.load(*population.initial(0))
    before = learner.train(1, 0.1, seed=1)
    assert learner.train(20, 0.1, seed=2) < before
    for client in range(300):
        population.learner(client)
    assert len(population._learners) <= 256


def test_users_are_their_own_clients():
    with pytest.raises(ConfigError, match=r"task.partition = 'iid': users are their own clients; set 'natural'"):
        LearningTask(data="users", **SMALL | {"partition": "iid"}).build()
    with pytest.raises(ConfigError, match="'natural' is for data that know their users"):
        LearningTask(partition="natural").build()
    with pytest.raises(ConfigError, match="'users' is drawn client by client"):
        load_data("users")


def test_shares_may_be_of_unequal_size():
    labels = np.arange(6000) % 10
    for shares in (iid(labels, 100, 1, spread=1.0), dirichlet(labels, 100, 0.5, 1, spread=1.0)):
        sizes = np.array([len(share) for share in shares])
        assert np.array_equal(sizes, shares.sizes)
        assert sizes.min() >= 4
        assert sizes.max() > 3 * np.median(sizes)
        together = np.concatenate(list(shares))
        assert np.unique(together).size == together.size > 5800
    assert spread_sizes(10, 3, 2.0, 0).min() == 3  # a share is never smaller than what there is
    with pytest.raises(ConfigError, match="size_spread = 1: sigma_d has shares of its own size"):
        LearningTask(size_spread=1.0).build()


def test_natural_shares_are_the_users_samples_in_order():
    shares = natural(np.array([1, 0, 1, 2, 1]), 2)
    assert [share.tolist() for share in shares] == [[1], [0, 2, 4]]
    assert natural(np.array([1, 0, 1, 2, 1]), 2, samples_per_client=2)[1].tolist() == [0, 2]
    with pytest.raises(DataError, match="4 clients: the data have 3 users"):
        natural(np.array([1, 0, 1, 2, 1]), 4)


def test_a_role_is_a_user_and_stage_directions_are_not_spoken(tmp_path):
    words = "Tush, tush, 'twill not appear.\n" * 40
    text = f"ACT I.\n\nHor.\n{words}\n[Enter Ghost,\n armed.]\n\nMar.\nPeace!\n\nHor.\nSay.\n"
    (tmp_path / "hamlet_gut.txt").write_text(text)
    (tmp_path / "sonnets_gut.txt").write_text(text)
    (speech,) = speeches(tmp_path)
    assert speech == words + "Say."
    windows = _windows(speech + "é", 10)
    assert windows.shape == (len(speech) // 10, 11)
    assert np.array_equal(windows[1:, 0], windows[:-1, -1])
    assert _windows("é" * 11, 10).tolist() == [[UNKNOWN] * 11]


def test_plays_that_are_not_there_are_asked_for(tmp_path):
    with pytest.raises(DataError, match="adagq data get shakespeare"):
        load_data("shakespeare", tmp_path)
