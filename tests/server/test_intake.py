"""Adding up: weights over what arrived, the same sum in any order, and no single update that counts for much more."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from adagq.codecs import Float32
from adagq.core.errors import PayloadError
from adagq.core.messages import Update
from adagq.core.seeds import generator
from adagq.core.vectors import Layout
from adagq.server.aggregate import Aggregate
from adagq.server.intake import Bounds, Intake, Usual
from toy import LAYOUT

BOUNDS = Bounds(norm=5.0, examples=10.0)
NORMALIZED = Layout.of(
    {
        "weight": np.zeros((8, 5), np.float32),
        "bn.running_mean": np.zeros(3, np.float32),
        "bn.running_var": np.zeros(3, np.float32),
    }
)


def random(*path: int | str) -> np.ndarray:
    return generator(1, *path).standard_normal(LAYOUT.elements).astype(np.float32)


def update(client: int, examples: int, vector: np.ndarray, buffers: np.ndarray) -> Update:
    return Update(client, 1, examples, Float32().encode(vector), Float32().encode(buffers), 0, 1.0, 0.0)


class Taken:
    """An intake, and what it said of the updates that it was given."""

    def __init__(
        self,
        clients: range,
        usual: Usual | None = None,
        bounds: Bounds = BOUNDS,
        layout: Layout = LAYOUT,
    ) -> None:
        self.refused: dict[int, str] = {}
        self.clamped: dict[int, str] = {}
        note, cut = self.refused.__setitem__, self.clamped.__setitem__
        self.intake = Intake(layout, clients, usual or Usual(), bounds, note, cut)

    def mean(self, *updates: Update) -> tuple[np.ndarray, np.ndarray]:
        for one in updates:
            self.intake.put(one)
        closed = self.intake.close()
        assert closed is not None
        return closed


def test_mean_is_weighted_by_examples_over_what_arrived() -> None:
    taken = Taken(range(4))
    vectors = [random(i) for i in range(3)]
    counts = (100, 300, 50)
    mean, buffers = taken.mean(
        *(update(i, counts[i], vectors[i], np.full(3, 10 + i / 10, np.float32)) for i in range(3))
    )
    expected = (100 * vectors[0] + 300 * vectors[1] + 50 * vectors[2]) / 450
    np.testing.assert_allclose(mean, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(buffers, 10 + (300 * 0.1 + 50 * 0.2) / 450, rtol=1e-6)
    assert taken.intake.accepted == {0: 100, 1: 300, 2: 50}
    assert not taken.clamped


def test_a_bad_payload_changes_nothing() -> None:
    aggregate = Aggregate(LAYOUT)
    good = random("good")
    aggregate.add(update(0, 10, good, np.ones(3, np.float32)))
    for bad in (
        update(1, 10, good[:-1], np.ones(3, np.float32)),
        update(1, 0, good, np.ones(3, np.float32)),
        Update(1, 1, 10, b"garbage", b"", 0, 1.0, 0.0),
    ):
        with pytest.raises(PayloadError):
            aggregate.add(bad)
        with pytest.raises(PayloadError):
            aggregate.add_clipped(bad, 1.0)
    assert aggregate.examples == 10
    np.testing.assert_allclose(aggregate.mean(), good, rtol=1e-6)


@pytest.mark.parametrize("usual", [Usual(), Usual((5.0,), (10,))], ids=["first round", "later round"])
def test_what_cannot_be_decoded_is_refused_and_changes_nothing(usual: Usual) -> None:
    good, ones = random("good"), np.ones(3, np.float32)
    taken = Taken(range(5), usual)
    mean, buffers = taken.mean(
        update(0, 10, good, ones),
        update(1, 10, good[:-1], ones),
        update(2, 10, good, np.ones(2, np.float32)),
        replace(update(3, 10, good, ones), payload=b"garbage"),
        replace(update(4, 10, good, ones), buffers=b""),
    )
    np.testing.assert_allclose(mean, good, rtol=1e-6)
    np.testing.assert_array_equal(buffers, 1)
    assert sorted(taken.refused) == [1, 2, 3, 4]


@pytest.mark.parametrize("usual", [Usual(), Usual((5.0,), (10,))], ids=["first round", "later round"])
def test_the_sum_does_not_depend_on_the_order_of_arrival(usual: Usual) -> None:
    updates = [update(i, 10 + i, random(i) * 10.0**i, np.full(3, i, np.float32)) for i in range(4)]
    means = []
    for order in itertools.permutations(range(4)):
        taken = Taken(range(5), usual, Bounds())
        for i in order[:2]:
            taken.intake.put(updates[i])
        taken.intake.missing(4)
        means.append(taken.mean(*(updates[i] for i in order[2:])))
    for mean, buffers in means[1:]:
        np.testing.assert_array_equal(mean, means[0][0])
        np.testing.assert_array_equal(buffers, means[0][1])


@pytest.mark.parametrize("scale", [100.0, 1e15])
def test_a_large_update_counts_as_one_of_the_largest_norm(scale: float) -> None:
    vectors = [random(i) for i in range(5)]
    norms = [float(np.linalg.norm(vector)) for vector in vectors]
    taken = Taken(range(5))
    ones = np.ones(3, np.float32)
    mean, _ = taken.mean(*(update(i, 10, vectors[i] * (scale if i == 2 else 1), ones) for i in range(5)))
    largest = 5 * float(np.median([*norms[:2], *norms[3:], scale]))
    expected = sum(vectors[i] * (largest / norms[2] if i == 2 else 1) for i in range(5)) / 5
    np.testing.assert_allclose(mean, expected, rtol=1e-4, atol=1e-5)
    assert list(taken.clamped) == [2]


def test_what_is_usual_is_learnt_from_what_counted() -> None:
    """Norms of the first round are remembered once, and as they counted: cut, or not at all if refused."""
    vectors = [random(i) for i in range(4)]
    ones = np.ones(3, np.float32)
    taken = Taken(range(5))
    taken.mean(
        *(update(i, 10, vectors[i], ones) for i in range(3)),
        update(3, 1000, 1e9 * vectors[3], ones),
        update(4, 10, np.full(LAYOUT.elements, 3e38, np.float32), ones),
    )
    assert list(taken.refused) == [4]
    usual = taken.intake.learnt()
    assert len(usual.norms) == len(usual.examples) == 4
    assert max(usual.norms) < 1000.0
    assert usual.examples == (10, 10, 10, 100)


def test_examples_beyond_the_bound_do_not_count() -> None:
    taken = Taken(range(3), Usual((6.0,), (100, 100, 120)))
    ones = np.ones(3, np.float32)
    taken.mean(*(update(i, 10**6 if i == 1 else 100, random(i), ones) for i in range(3)))
    assert taken.intake.accepted == {0: 100, 1: 1000, 2: 100}
    assert list(taken.clamped) == [1]


@pytest.mark.parametrize("lie", [np.array([0.1, 0.1, 0.1, -5, 1, 1], np.float32), np.full(6, 1e6, np.float32)])
def test_one_clients_buffers_do_not_move_the_mean(lie: np.ndarray) -> None:
    """A variance below zero is refused with its update; numbers far away are cut to what the others have."""
    honest = [np.array([0.1, 0.1, 0.1, 1, 1, 1], np.float32) * (1 + i / 100) for i in range(20)]
    means = {}
    for name, spoilt in (("honest", honest[7]), ("lied", lie)):
        taken = Taken(range(20), layout=NORMALIZED)
        buffers = [spoilt if i == 7 else honest[i] for i in range(20)]
        _, means[name] = taken.mean(*(update(i, 10, random(i), buffers[i]) for i in range(20)))
    np.testing.assert_allclose(means["lied"], means["honest"], rtol=0.07)
    assert [*taken.refused, *taken.clamped] == [7]
    assert list(taken.refused) == ([7] if lie.min() < 0 else [])
