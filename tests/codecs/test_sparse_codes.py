"""The codes for links below half a bit a parameter: dead zone, either, fading."""

import numpy as np
import pytest

from adagq.codecs import QSGD, DeadZone, Either, ErrorFeedback, Fading, decode, send
from adagq.codecs.either import remainder
from adagq.core.codec import levels_of

DENSE = QSGD(15, "vector", "l2", "dither")


def heavy(size: int = 20_000, seed: int = 0) -> np.ndarray:
    """Log-normal magnitudes: as heavy-tailed as updates are."""
    draw = np.random.default_rng(seed)
    return (draw.standard_normal(size) * np.exp(draw.standard_normal(size))).astype(np.float32)


@pytest.mark.parametrize("budget", [64, 100, 300, 1000, 4000])
def test_a_dead_zone_fills_its_budget_and_never_passes_it(budget: int) -> None:
    payload = DeadZone().fitted(heavy(), budget).encode(heavy())
    assert 0.9 * budget - 8 <= len(payload) <= budget


def test_a_dead_zone_keeps_the_largest_entries_within_a_factor_of_two() -> None:
    x = heavy()
    received = decode(DeadZone(0.02).encode(x))
    kept = received != 0
    assert kept.sum() == 400
    assert np.abs(x[kept]).min() >= np.abs(x[~kept]).max()
    assert np.all(np.sign(received[kept]) == np.sign(x[kept]))
    ratio = np.abs(received[kept] / x[kept])
    assert 0.5 < ratio.min() <= ratio.max() < 2.0
    # The scale is the projection: nothing is left to shrink.
    assert float(np.dot(x, received) / np.dot(received, received)) == pytest.approx(1.0, abs=1e-3)


def test_a_dead_zone_is_a_contraction_with_outliers_too() -> None:
    x = heavy()
    x[7] = 1e15
    received = decode(DeadZone(0.02).encode(x))
    assert received[7] == pytest.approx(x[7])  # 2^31 times the smallest entry is the most there is
    assert float(np.sum((received - x) ** 2)) <= float(np.sum(x**2))


@pytest.mark.parametrize("x", [np.zeros(9, np.float32), np.zeros(0, np.float32), np.ones(1, np.float32)])
def test_vectors_with_little_in_them(x: np.ndarray) -> None:
    assert decode(DeadZone(0.5).encode(x)).tolist() == x.tolist()


def test_either_takes_what_leaves_less_behind() -> None:
    either, x = Either(DENSE, DeadZone()), heavy()
    chosen = {budget: either.fitted(x, budget) for budget in (300, 1500, 20_000)}
    assert isinstance(chosen[300], DeadZone)
    assert isinstance(chosen[20_000], QSGD)
    for budget, codec in chosen.items():
        left = [remainder(x, decode(c.fitted(x, budget).encode(x))) for c in (DENSE, DeadZone())]
        assert remainder(x, decode(codec.encode(x))) == pytest.approx(min(left), rel=1e-6)


def test_fading_is_unbiased_while_that_is_little_noise_and_else_sparse() -> None:
    codec, x = Fading(DENSE, DeadZone(), limit=0.05), heavy()
    rich, poor = send(codec.over(20), x, budget_bytes=8000), send(codec.over(20), x, budget_bytes=400)
    assert (levels_of(rich.codec) > 0, set(rich.state)) == (True, set())
    assert (levels_of(poor.codec) > 0, set(poor.state)) == (False, {"residual"})
    # Two clients average less noise out than twenty.
    assert levels_of(send(codec.over(20), x, budget_bytes=3000).codec) > 0
    assert levels_of(send(codec.over(2), x, budget_bytes=3000).codec) == 0


def test_a_residual_fades_and_energies_are_those_of_the_news() -> None:
    codec, x = Fading(DENSE, DeadZone(), decay=0.5, limit=0.0), heavy()
    first = send(codec, x, budget_bytes=400)
    second = send(codec, np.zeros_like(x), first.state, budget_bytes=400)
    np.testing.assert_allclose(second.received + second.state["residual"], 0.5 * first.state["residual"], atol=1e-6)
    assert first.energy == pytest.approx(float(np.dot(x, x)), rel=1e-5)
    assert second.energy == 0.0
    # What never arrived goes with the next payload.
    back = codec.undelivered(first.state, first.payload)
    np.testing.assert_allclose(back["residual"], x, atol=1e-5)


def test_feedback_that_fades_carries_only_a_share() -> None:
    x = heavy()
    first = send(ErrorFeedback(DeadZone(0.01), decay=0.5), x)
    second = send(ErrorFeedback(DeadZone(0.01), decay=0.5), np.zeros_like(x), first.state)
    np.testing.assert_allclose(second.received + second.state["residual"], 0.5 * first.state["residual"], atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DeadZone(0.0),
        lambda: Fading(DENSE, DeadZone(), decay=1.5),
        lambda: Fading(DENSE, DeadZone(), clients=0),
        lambda: Fading(ErrorFeedback(DENSE), DeadZone()),
        lambda: ErrorFeedback(DENSE, decay=-0.1),
    ],
)
def test_knobs_out_of_range(make) -> None:
    with pytest.raises(ValueError):
        make()
