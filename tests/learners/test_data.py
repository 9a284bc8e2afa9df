"""The data sets that need no folder."""

import numpy as np
import pytest

from adagq.errors import ConfigError, DataError
from adagq.learners.data import load_data, synthetic


def test_digits_are_split_once_and_for_all():
    data = load_data("digits")
    assert data.train_images.shape == (1437, 1, 8, 8)
    assert data.test_images.shape == (360, 1, 8, 8)
    assert np.bincount(data.test_labels).min() >= 34
    again = load_data("digits", seed=5)
    np.testing.assert_array_equal(data.train_images, again.train_images)
    assert data.train_images.max() == 16


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 20), (2, 1, 3)], ids=str)
def test_synthetic_has_the_shape_asked_for(shape):
    data = synthetic(shape, classes=7, samples=700, seed=3)
    assert data.shape == shape
    assert np.bincount(data.train_labels).tolist() == [100] * 7
    assert data.test_images.shape == (175, *shape)


def test_synthetic_depends_on_its_seed_only():
    one, again, other = synthetic(seed=1), synthetic(seed=1), synthetic(seed=2)
    np.testing.assert_array_equal(one.train_images, again.train_images)
    assert not np.array_equal(one.train_images, other.train_images)


def test_synthetic_test_part_belongs_to_the_training_part():
    data = synthetic((1, 8, 8), samples=1000)
    centres = np.stack([data.train_images[data.train_labels == c].mean(0) for c in range(10)])
    distances = np.square(data.test_images[:, None] - centres).sum((2, 3, 4))
    assert (distances.argmin(1) == data.test_labels).mean() > 0.95


def test_normalisation_is_per_channel():
    data = synthetic((3, 4, 4), samples=1500)
    data.train_images[:, 1] = data.train_images[:, 1] * 5 + 7
    data.train_images[:, 2] = 4
    mean, deviation = data.normalisation()
    np.testing.assert_allclose(mean, data.train_images.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(deviation[:2], data.train_images.std((0, 2, 3))[:2], rtol=1e-4)
    assert deviation[2] == 1


def test_bad_names_and_sizes_are_named():
    with pytest.raises(ConfigError, match="'mnist' is unknown; allowed: digits, synthetic, fashion-mnist, cifar10"):
        load_data("mnist")
    with pytest.raises(DataError, match="too small"):
        load_data("synthetic", classes=1)
