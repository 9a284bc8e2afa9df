"""Aggregates: the rules' own arithmetic, memory in blocks, and what a minority of bad updates can do."""

import numpy as np
import pytest

from adagq.codecs import QSGD, Float32
from adagq.core.errors import ConfigError, PayloadError
from adagq.core.messages import Update
from adagq.core.seeds import generator
from adagq.core.vectors import Layout
from adagq.rounds.schedule import Schedule
from adagq.server import robust
from adagq.server.aggregate import Aggregate
from adagq.server.robust import AGGREGATES

ELEMENTS, HONEST, BAD = 600, 14, 6
LAYOUT = Layout.of_sizes([ELEMENTS])
RULES = ("clipped", "trimmed-mean", "median", "krum")


def update(client: int, vector: np.ndarray, examples: int = 100) -> Update:
    return Update(client, 1, examples, Float32().encode(vector.astype(np.float32)), b"", 0, 1.0, 0.0)


def honest(client: int) -> np.ndarray:
    return 1.0 + generator(3, "honest", client).normal(0, 0.5, ELEMENTS)


def combined(rule: str, updates: list[Update], share: float = 0.3) -> np.ndarray:
    total = AGGREGATES[rule](LAYOUT, share)
    for one in updates:
        total.add_clipped(one)
    return total.mean()


def test_every_rule_of_the_issue_is_there() -> None:
    assert set(AGGREGATES) >= {"mean", *RULES}
    assert isinstance(AGGREGATES["mean"](LAYOUT, 0.3), Aggregate)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("attack", ["scale", "flip", "constant", "same"])
def test_six_bad_updates_of_twenty_do_not_turn_the_round(rule: str, attack: str) -> None:
    bad = {
        "scale": lambda i: 100 * honest(i),
        "flip": lambda i: -honest(i),
        "constant": lambda i: np.full(ELEMENTS, -1e15),
        "same": lambda i: -3 * honest(0),  # all six agree
    }[attack]
    clean = np.mean([honest(i) for i in range(HONEST)], axis=0)
    updates = [update(i, honest(i)) for i in range(HONEST)] + [update(i, bad(i)) for i in range(HONEST, HONEST + BAD)]
    made = combined(rule, updates)
    assert np.dot(made, clean) > 0.3 * np.dot(clean, clean)
    assert np.linalg.norm(made - clean) < 0.8 * np.linalg.norm(clean)


def test_rules_are_their_definitions() -> None:
    vectors = [honest(i).astype(np.float32) for i in range(10)]
    updates = [update(i, vector) for i, vector in enumerate(vectors)]
    ordered = np.sort(vectors, axis=0)
    np.testing.assert_allclose(combined("median", updates), np.median(vectors, axis=0), rtol=1e-6)
    np.testing.assert_allclose(combined("trimmed-mean", updates), ordered[3:7].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(combined("trimmed-mean", updates, 0.0), np.mean(vectors, axis=0), rtol=1e-5, atol=1e-6)
    apart = np.array([[np.sum((a - b) ** 2) for b in vectors] for a in vectors])
    scores = np.sort(apart, axis=1)[:, 1:6].sum(axis=1)  # n - f - 2 neighbours
    best = np.argsort(scores)[:7]
    np.testing.assert_allclose(combined("krum", updates), np.mean([vectors[i] for i in best], axis=0), rtol=1e-5)
    norms = np.linalg.norm(vectors, axis=1)
    cut = [vector * min(1, np.median(norms) / norm) for vector, norm in zip(vectors, norms, strict=True)]
    np.testing.assert_allclose(combined("clipped", updates), np.mean(cut, axis=0), rtol=1e-4, atol=1e-6)


def test_a_weight_is_a_claim() -> None:
    for rule in RULES:
        fair = combined(rule, [update(i, honest(i)) for i in range(10)])
        heavy = combined(rule, [update(i, honest(i), 10**8 if i == 9 else 100) for i in range(10)])
        np.testing.assert_allclose(heavy, fair, rtol=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_blocks_and_order_of_arrival_change_nothing(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = QSGD(levels=15, granularity="tensor", norm="l2", rounding="dither", packing="entropy")
    updates = [
        Update(i, 1, 100 + i, codec.encode(honest(i).astype(np.float32), i, LAYOUT), b"", 15, 1.0, 0.0)
        for i in range(9)
    ]
    whole = combined(rule, updates)
    monkeypatch.setattr(robust, "TABLE_BYTES", 0)  # 4 models for 9 updates: three tables
    assert len(list(_held(updates).tables())) == 3
    np.testing.assert_array_equal(combined(rule, updates), whole)
    np.testing.assert_array_equal(combined(rule, updates[::-1]), whole)


def _held(updates: list[Update]) -> robust.Held:
    held = robust.Held(robust.coordinate_median, LAYOUT, 0.3)
    for one in updates:
        held.add(one)
    return held


def test_tables_take_the_memory_of_four_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robust, "TABLE_BYTES", 0)
    held = _held([update(i, honest(i)) for i in range(50)])
    assert max(table.base.nbytes if table.base is not None else table.nbytes for _, table in held.tables()) <= (
        robust.MODELS * 4 * ELEMENTS
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_few_updates_are_enough(rule: str, count: int) -> None:
    made = combined(rule, [update(i, honest(i)) for i in range(count)])
    assert np.isfinite(made).all()
    assert 0.5 < made.mean() < 1.5


@pytest.mark.parametrize("rule", RULES)
def test_a_bad_payload_is_refused_when_it_comes_and_changes_nothing(rule: str) -> None:
    total = AGGREGATES[rule](LAYOUT, 0.3)
    total.add_clipped(update(0, honest(0)))
    for bad in (
        update(1, honest(1)[:-1]),
        update(1, honest(1), examples=0),
        update(1, np.full(ELEMENTS, 3e38)),
        Update(1, 1, 10, b"garbage", b"", 0, 1.0, 0.0),
    ):
        with pytest.raises(PayloadError):
            total.add_clipped(bad)
    np.testing.assert_allclose(total.mean(), honest(0), rtol=1e-6)


def test_unknown_aggregates_and_shares_are_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'median'"):
        Schedule(seed=0, aggregate="medain")
    with pytest.raises(ConfigError, match=r"byzantine_share = 0\.5"):
        Schedule(seed=0, byzantine_share=0.5)
