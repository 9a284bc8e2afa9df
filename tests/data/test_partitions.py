"""Shares are equal, disjoint and have the class mix that was asked for; what cannot be is said in numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adagq.core.errors import ConfigError, DataError
from adagq.data.partitions import contiguous, dirichlet, hold_out, iid, partition, sigma_d

LABELS = np.random.default_rng(0).permutation(np.arange(5000) % 10)


def class_counts(shares, labels=LABELS) -> np.ndarray:
    return np.stack([np.bincount(labels[share], minlength=labels.max() + 1) for share in shares])


def disjoint(shares) -> bool:
    together = np.concatenate(shares)
    return len(np.unique(together)) == len(together)


@pytest.mark.parametrize("degree", [0.2, 0.5, 0.8])
def test_sigma_d_in_the_papers_setting_uses_every_sample(degree):
    shares = sigma_d(LABELS, 20, degree, seed=1)
    counts = class_counts(shares)
    assert disjoint(shares)
    assert (counts.sum(1) == 250).all()
    for client, row in enumerate(counts):
        assert row[client % 10] == round(degree * 250)
        others = np.delete(row, client % 10)
        assert others.max() - others.min() <= 1


@settings(max_examples=60, deadline=None)
@given(classes=st.integers(2, 12), times=st.integers(1, 4), share=st.integers(1, 40), degree=st.floats(0, 1))
def test_sigma_d_leaves_nothing_over_where_classes_are_equal(classes, times, share, degree):
    labels = np.arange(classes * times * share) % classes
    shares = sigma_d(labels, classes * times, degree, seed=0)
    assert [len(s) for s in shares] == [share] * (classes * times)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(30, 90), min_size=2, max_size=12),
    clients=st.integers(1, 25),
    degree=st.floats(0, 1),
    seed=st.integers(0, 2**63),
)
def test_sigma_d_properties(sizes, clients, degree, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    try:
        shares = sigma_d(labels, clients, degree, seed)
    except DataError:
        return  # so few samples that not even one each can be had
    share = len(shares[0])
    assert disjoint(shares)
    assert [len(s) for s in shares] == [share] * clients
    for client, row in enumerate(class_counts(shares, labels)):
        main = client % len(sizes)
        assert row[main] == round(degree * share)
        others = np.delete(row, main)
        assert others.max() - others.min() <= 1


@settings(max_examples=60, deadline=None)
@given(
    clients=st.integers(1, 40),
    alpha=st.floats(1e-3, 1e3),
    seed=st.integers(0, 2**63),
    share=st.none() | st.integers(1, 25),
)
def test_dirichlet_properties(clients, alpha, seed, share):
    labels = LABELS[:1000]
    shares = dirichlet(labels, clients, alpha, seed, share)
    assert disjoint(shares)
    assert [len(s) for s in shares] == [share or 1000 // clients] * clients


def test_dirichlet_alpha_sets_the_skew():
    def skew(alpha: float) -> float:
        return float((class_counts(dirichlet(LABELS, 20, alpha, 0)).max(1) / 250).mean())

    assert skew(0.05) > 0.7 > skew(1.0) > 0.2 > skew(100.0)


def test_iid_is_a_cut_of_a_shuffle():
    shares = iid(LABELS, 7, seed=0)
    assert disjoint(shares)
    assert [len(s) for s in shares] == [714] * 7
    assert class_counts(shares).min() > 40


@pytest.mark.parametrize("kind", ["sigma_d", "dirichlet", "iid"])
def test_the_seed_decides(kind):
    def draw(seed: int) -> np.ndarray:
        return np.stack(partition(kind, None, LABELS, 10, seed, 100))

    np.testing.assert_array_equal(draw(3), draw(3))
    assert not np.array_equal(draw(3), draw(4))


def test_a_thousand_clients_are_split_quickly():
    labels = np.arange(60_000) % 10
    assert disjoint(sigma_d(labels, 1000, 0.5, 0))
    assert disjoint(dirichlet(labels, 1000, 0.3, 0))


@given(
    size=st.integers(2, 400),
    fraction=st.floats(0.01, 0.99),
    limit=st.integers(1, 300),
    client=st.integers(0, 9),
)
def test_hold_out_properties(size, fraction, limit, client):
    indices = np.arange(1000, 1000 + size)
    train, held = hold_out(indices, fraction, limit, 5, client)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, held])), indices)
    assert len(train) >= 1
    assert 1 <= len(held) <= limit
    if size > 20 and 0.1 < fraction < 0.9:
        assert len(held) == min(limit, round(fraction * size))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: iid(LABELS, 20, 0, 300),
            DataError,
            "20 clients x 300 samples need 6000 training samples, the data set has 5000",
        ),
        (lambda: iid(LABELS, 6000, 0), DataError, "6000 clients x 1 samples need 6000"),
        (
            lambda: sigma_d(LABELS, 4, 1.0, 0, 600),
            DataError,
            "4 clients x 600 samples cannot be had from classes of 500 to 500 samples; at most 500 samples",
        ),
        (lambda: sigma_d(np.zeros(10, np.int64), 2, 0.5, 0), DataError, "at least 2 classes"),
        (lambda: sigma_d(LABELS, 4, 1.5, 0), ConfigError, "1.5 is not a fraction from 0 to 1"),
        (lambda: dirichlet(LABELS, 4, 0.0, 0), ConfigError, "alpha is 0.0"),
        (lambda: iid(LABELS, 0, 0), ConfigError, "clients: 0"),
        (lambda: iid(LABELS, 2, 0, 0), ConfigError, "samples_per_client: 0"),
        (lambda: partition("even", None, LABELS, 2, 0), ConfigError, "allowed: sigma_d, dirichlet, iid"),
        (lambda: hold_out(np.arange(9), 1.0, 5, 0, 0), ConfigError, "held_out: 1.0"),
        (lambda: hold_out(np.arange(9), 0.1, 0, 0, 0), ConfigError, "probe_samples: 0"),
        (lambda: hold_out(np.arange(1), 0.1, 5, 0, 3), DataError, "client 3 has 1 samples"),
    ],
)
def test_impossible_splits_are_said_in_numbers(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_contiguous_parts_lie_as_the_samples_do():
    shares = contiguous(np.zeros((103, 7), np.int64), 10)
    np.testing.assert_array_equal(np.concatenate(shares), np.arange(100))
    fewer = contiguous(np.zeros((103, 7), np.int64), 10, samples_per_client=4)
    assert [share.tolist() for share in (fewer[0], fewer[1])] == [[0, 1, 2, 3], [10, 11, 12, 13]]
    by_name = partition("contiguous", None, np.zeros((103, 7), np.int64), 10, seed=5)
    assert all(map(np.array_equal, shares, by_name))


@pytest.mark.parametrize("kind", ["sigma_d", "dirichlet"])
def test_labels_of_tokens_do_not_split_samples(kind):
    with pytest.raises(ConfigError, match="one label a sample, these data have one a token; allowed: iid, contiguous"):
        partition(kind, None, np.zeros((103, 7), np.int64), 10, 0)
