"""Published data sets are recognised, in any order in which a copy holds them."""

from dataclasses import replace

import numpy as np
import pytest

from adagq.core.errors import DataError
from adagq.data import DataSet, load_data
from adagq.data.fingerprints import BLOCK, PUBLISHED, verify


def published(name: str) -> DataSet:
    """Return this machine's copy; tests that need the real samples are skipped where there is none."""
    try:
        return load_data(name)
    except DataError:
        pytest.skip(f"{name} is not on this machine; adagq data get {name}")


@pytest.fixture(scope="module", params=list(PUBLISHED))
def copy(request: pytest.FixtureRequest) -> DataSet:
    return published(request.param)


def test_the_published_set_is_recognised(copy: DataSet) -> None:
    found = verify(copy)
    assert found.in_order
    assert found.data is copy


def test_batches_in_another_order_are_put_right(copy: DataSet) -> None:
    blocks = np.split(np.arange(len(copy.train_labels)), len(copy.train_labels) // BLOCK)
    order = np.concatenate(blocks[3:] + blocks[:3])
    moved = replace(copy, train_inputs=copy.train_inputs[order], train_labels=copy.train_labels[order])
    found = verify(moved)
    assert found.in_order
    np.testing.assert_array_equal(found.data.train_labels, copy.train_labels)
    np.testing.assert_array_equal(found.data.train_inputs, copy.train_inputs)


def test_any_other_order_is_accepted_and_said(copy: DataSet) -> None:
    order = np.random.default_rng(0).permutation(len(copy.test_labels))
    found = verify(replace(copy, test_inputs=copy.test_inputs[order], test_labels=copy.test_labels[order]))
    assert not found.in_order


def test_one_changed_pixel_or_label_is_refused(copy: DataSet) -> None:
    images = copy.train_inputs.copy()
    images[12_345, 0, 7, 7] ^= 1
    with pytest.raises(DataError, match="train pixels or labels are not the published ones"):
        verify(replace(copy, train_inputs=images))
    labels = copy.test_labels.copy()
    first, second = 0, int(np.flatnonzero(labels != labels[0])[0])
    labels[[first, second]] = labels[[second, first]]
    with pytest.raises(DataError, match="test pixels or labels"):
        verify(replace(copy, test_labels=labels))


def test_wrong_sizes_kinds_and_histograms_are_named() -> None:
    images, labels = np.zeros((60_000, 1, 28, 28), np.uint8), np.arange(60_000) % 10
    tests = np.zeros((10_000, 1, 28, 28), np.uint8), np.arange(10_000) % 10
    data = DataSet("fashion-mnist", images, labels, *tests, 10)
    with pytest.raises(DataError, match="pixels or labels"):
        verify(data)
    with pytest.raises(DataError, match="59999 train images, the published set has 60000"):
        verify(replace(data, train_inputs=images[1:], train_labels=labels[1:]))
    with pytest.raises(DataError, match=r"labels per class are \[60000\], expected 6000 of each"):
        verify(replace(data, train_labels=labels * 0))
    with pytest.raises(DataError, match="images are float32"):
        verify(replace(data, train_inputs=images[:10].astype(np.float32), train_labels=labels[:10]))
