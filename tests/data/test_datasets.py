"""The data sets that need no folder."""

import numpy as np
import pytest

from adagq.core.errors import ConfigError, DataError
from adagq.data import DATASETS, DataSet, load_data
from adagq.data.characters import ALPHABET, PEOPLE
from adagq.data.folders import FOLDERS
from adagq.data.synthetic import synthetic


def test_digits_are_split_once_and_for_all():
    data = load_data("digits")
    assert data.train_inputs.shape == (1437, 1, 8, 8)
    assert data.test_inputs.shape == (360, 1, 8, 8)
    assert np.bincount(data.test_labels).min() >= 34
    again = load_data("digits", seed=5)
    np.testing.assert_array_equal(data.train_inputs, again.train_inputs)
    assert data.train_inputs.max() == 16


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 20), (2, 1, 3)], ids=str)
def test_synthetic_has_the_shape_asked_for(shape):
    data = synthetic(shape, classes=7, samples=700, seed=3)
    assert data.shape == shape
    assert np.bincount(data.train_labels).tolist() == [100] * 7
    assert data.test_inputs.shape == (175, *shape)


def test_synthetic_depends_on_its_seed_only():
    one, again, other = synthetic(seed=1), synthetic(seed=1), synthetic(seed=2)
    np.testing.assert_array_equal(one.train_inputs, again.train_inputs)
    assert not np.array_equal(one.train_inputs, other.train_inputs)


def test_synthetic_test_part_belongs_to_the_training_part():
    data = synthetic((1, 8, 8), samples=1000)
    centres = np.stack([data.train_inputs[data.train_labels == c].mean(0) for c in range(10)])
    distances = np.square(data.test_inputs[:, None] - centres).sum((2, 3, 4))
    assert (distances.argmin(1) == data.test_labels).mean() > 0.95


def test_normalisation_is_per_channel():
    data = synthetic((3, 4, 4), samples=1500)
    data.train_inputs[:, 1] = data.train_inputs[:, 1] * 5 + 7
    data.train_inputs[:, 2] = 4
    mean, deviation = data.normalisation()
    np.testing.assert_allclose(mean, data.train_inputs.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(deviation[:2], data.train_inputs.std((0, 2, 3))[:2], rtol=1e-4)
    assert deviation[2] == 1


def test_bad_names_and_sizes_are_named():
    with pytest.raises(
        ConfigError,
        match=r"unknown data set 'mnist': did you mean 'fashion-mnist'\? Known: digits, synthetic, fashion-mnist",
    ):
        load_data("mnist")
    with pytest.raises(DataError, match="too small"):
        load_data("synthetic", classes=1)


def test_every_data_set_without_a_folder_loads_by_name():
    for name in set(DATASETS) - set(FOLDERS) - {"users", "shakespeare"}:
        data = load_data(name)
        assert data.name == name
        assert len(data.train_inputs) > len(data.test_inputs) > 0
        assert set(np.unique(data.train_labels)) <= set(range(data.classes))


@pytest.mark.parametrize(
    ("name", "features", "classes", "train", "test"), [("wine", 13, 3, 142, 36), ("breast-cancer", 30, 2, 455, 114)]
)
def test_tables_have_features_each_with_its_own_scale(name, features, classes, train, test):
    data = load_data(name)
    assert (data.shape, data.classes) == ((features,), classes)
    assert (len(data.train_inputs), len(data.test_inputs)) == (train, test)
    assert set(data.test_labels) == set(range(classes))
    mean, deviation = data.normalisation()
    np.testing.assert_allclose(mean, data.train_inputs.mean(0), rtol=1e-4)
    np.testing.assert_allclose(deviation, data.train_inputs.std(0), rtol=1e-3)


def test_characters_are_followed_by_their_labels():
    data = load_data("characters", samples=200, shape=(20,), seed=1)
    assert data.train_inputs.shape == data.train_labels.shape == (200, 20)
    assert data.train_inputs.dtype == data.train_labels.dtype == np.int64
    np.testing.assert_array_equal(data.train_inputs.reshape(-1)[1:], data.train_labels.reshape(-1)[:-1])
    assert data.normalisation() is None
    text = "".join(ALPHABET[place] for place in data.train_inputs.reshape(-1))
    assert " to the " in text
    again, other = (load_data("characters", samples=200, shape=(20,), seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(data.test_inputs, again.test_inputs)
    assert not np.array_equal(data.test_inputs, other.test_inputs)
    assert not np.array_equal(data.test_inputs, data.train_inputs[:50])


def test_chapters_of_the_text_prefer_words_of_their_own():
    data = load_data("characters", samples=4000)
    text = "".join(ALPHABET[place] for place in data.train_inputs.reshape(-1))
    part = len(text) // 16
    counts = np.array([[text[i * part : (i + 1) * part].count(word) for word in PEOPLE] for i in range(16)])
    shares = counts / counts.sum(1, keepdims=True)
    assert len(set(shares.argmax(1))) > 4
    assert shares.max(1).min() > 0.2


@pytest.mark.parametrize(
    ("inputs", "labels", "words"),
    [
        (np.zeros((4, 3), np.float64), np.zeros(4, np.int64), "train inputs are float64"),
        (np.zeros(4, np.float32), np.zeros(4, np.int64), r"of shape \(4,\)"),
        (np.zeros((4, 3), np.float32), np.zeros(5, np.int64), r"train labels are int64 of shape \(5,\)"),
        (np.zeros((4, 3), np.int64), np.zeros((4, 2), np.int64), "one a sample or a token"),
        (np.zeros((4, 3), np.float32), np.zeros(4, np.int32), "train labels are int32"),
    ],
)
def test_what_is_no_data_set_is_named(inputs, labels, words):
    with pytest.raises(DataError, match=words):
        DataSet("mine", inputs, labels, inputs, labels, 10)
