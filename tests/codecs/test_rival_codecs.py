"""The rivals' rules, checked against numbers computed by hand, and what each of them claims."""

from math import erf, exp, pi, sqrt

import numpy as np
import pytest
from contract import LAYOUT, layered, layout_of

from adagq.codecs import (
    DGC,
    STC,
    Clipped,
    Cocktail,
    Codec,
    Eden,
    ErrorFeedback,
    FedDQ,
    OneBit,
    PowerSGD,
    SignSGD,
    SparseLoCo,
    TernGrad,
    TopK,
    Wangni,
    decode,
    inspect,
    send,
)
from adagq.codecs.cocktail import places_of
from adagq.codecs.eden import CENTROIDS, blocks_of, hadamard
from adagq.codecs.powersgd import orthonormal
from adagq.codecs.sparse_feedback import within

D = 20_000


def bell(seed: int = 1, size: int = D) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def error(codec: Codec, x: np.ndarray, seed: int = 0) -> float:
    """NMSE of one payload."""
    decoded = decode(codec.encode(x, seed, [x.size]))
    return float(np.sum((decoded - x) ** 2) / np.sum(x**2))


def test_onebit_sends_the_mean_of_either_sign_of_each_tensor() -> None:
    x = np.array([1.0, 3.0, -2.0, 0.0, -5.0, -7.0], np.float32)
    assert decode(OneBit("tensor").encode(x, layout=[3, 3])).tolist() == [2.0, 2.0, -2.0, 0.0, -6.0, -6.0]


def test_onebit_with_feedback_keeps_what_it_lost() -> None:
    first = send(ErrorFeedback(OneBit()), np.array([1.0, 3.0, -2.0], np.float32))
    assert first.received.tolist() == [2.0, 2.0, -2.0]
    assert first.state["residual"].tolist() == [-1.0, 1.0, 0.0]
    second = send(ErrorFeedback(OneBit()), np.array([2.0, 2.0, -1.0], np.float32), first.state)
    assert second.received.tolist() == [2.0, 2.0, -1.0]  # of 1, 3 and -1


def test_ef_signsgd_sends_the_mean_magnitude_and_is_a_contraction() -> None:
    first = send(ErrorFeedback(SignSGD("tensor")), np.array([1.0, -3.0, 0.5], np.float32), layout=[2, 1])
    assert first.received.tolist() == [2.0, -2.0, 0.5]
    assert first.state["residual"].tolist() == [-1.0, -1.0, 0.0]


@pytest.mark.parametrize("codec", [OneBit("tensor"), SignSGD("tensor")])
def test_one_bit_an_entry(codec: Codec) -> None:
    assert 8 * len(codec.encode(bell(), layout=[D])) / D < 1.05


def test_terngrads_clip_is_at_so_many_deviations_of_each_tensor() -> None:
    x = np.array([10.0, -1.0, 1.0, -1.0, 1.0, 5.0, 5.0], np.float32)
    deviation = np.std(x[:5].astype(np.float64))
    clipped = Clipped(TernGrad("tensor"), 1.0).clip(x, [5, 2])
    np.testing.assert_allclose(clipped, [deviation, -1, 1, -1, 1, 5, 5], rtol=1e-6)
    sent = decode(Clipped(TernGrad("tensor"), 1.0).encode(x, 3, [5, 2]))
    assert set(np.round(np.abs(sent[:5]) / deviation, 5)) <= {0.0, 1.0}


def test_clipping_lowers_terngrads_error_on_heavy_tails() -> None:
    x = layered()
    plain, clipped = (decode(codec.encode(x, 1, LAYOUT)) for codec in (TernGrad("tensor"), Clipped(TernGrad("tensor"))))
    assert np.sum((clipped - x) ** 2) < np.sum((plain - x) ** 2)


@pytest.mark.parametrize("bits", CENTROIDS)
def test_edens_centroids_are_lloyd_and_maxs(bits: int) -> None:
    """Every centroid is the mean of the standard normal between the middles of its neighbours."""
    half = np.array(CENTROIDS[bits])
    cuts = [0.0, *(half[1:] + half[:-1]) / 2, np.inf]
    for centroid, low, high in zip(half, cuts[:-1], cuts[1:], strict=True):
        density = (exp(-(low**2) / 2) - (exp(-(high**2) / 2) if high < np.inf else 0.0)) / sqrt(2 * pi)
        mass = (erf(high / sqrt(2)) - erf(low / sqrt(2))) / 2 if high < np.inf else (1 - erf(low / sqrt(2))) / 2
        assert centroid == pytest.approx(density / mass, abs=2e-4)


@pytest.mark.parametrize(("bits", "expected"), [(1, pi / 2 - 1), (2, 0.133), (3, 0.0358), (4, 0.0096)])
def test_edens_error_and_size_on_any_vector(bits: int, expected: float) -> None:
    """NMSE of the unbiased scale is 1 / (1 - d) - 1, d Lloyd and Max's distortion: after rotation of any vector."""
    sparse = np.where(np.arange(D) % 50 == 0, bell(), 0).astype(np.float32)
    for x in (bell(), sparse):
        assert error(Eden(bits), x) == pytest.approx(expected, rel=0.08)
    assert 8 * len(Eden(bits).encode(bell())) / D < bits + 0.1


def test_eden_means_what_it_was_given() -> None:
    x = layered()
    mean = np.mean([decode(Eden(2).encode(x, seed)) for seed in range(200)], axis=0)
    assert np.sum((mean - x) ** 2) / np.sum(x**2) < 2 * 0.133 / 200


def test_edens_blocks_and_rotation() -> None:
    assert list(blocks_of(0)) == []
    assert list(blocks_of(70)) == [(0, 1, 64), (64, 1, 64)]
    assert list(blocks_of(2 * 2**14 + 256 + 3)) == [(0, 2, 2**14), (2**15, 1, 256), (2**15 + 256, 1, 64)]
    rows = np.random.default_rng(0).standard_normal((3, 64))
    np.testing.assert_allclose(hadamard(hadamard(rows)), rows, atol=1e-12)
    np.testing.assert_allclose((hadamard(rows) ** 2).sum(axis=1), (rows**2).sum(axis=1))


def test_wangnis_chances_by_hand() -> None:
    """fraction 0.5 of 4: lambda = 2/8 makes p = (1.5, .25, .25, 0); rescaled over the rest: 1 left over 2: p = 1/2."""
    assert Wangni(0.5).chances(np.array([6.0, 1.0, 1.0, 0.0], np.float32)).tolist() == [1.0, 0.5, 0.5, 0.0]
    assert Wangni(0.5).chances(np.array([1.0, 1.0, 1.0, 1.0], np.float32)).tolist() == [0.5] * 4
    kept = decode(Wangni(0.5).encode(np.array([6.0, 1.0, -1.0, 0.0], np.float32), seed=1))
    assert kept[0] == 6.0
    assert set(np.abs(kept[1:])) <= {0.0, 2.0}


def test_wangni_is_unbiased_and_keeps_its_share() -> None:
    x = layered()
    decoded = np.array([decode(Wangni(0.1).encode(x, seed)) for seed in range(400)])
    chances = Wangni(0.1).chances(x)
    assert chances.sum() == pytest.approx(0.1 * x.size, rel=0.05)
    deviation = np.sqrt(np.maximum(x.astype(np.float64) ** 2 * (1 / np.maximum(chances, 1e-12) - 1), 1e-30) / 400)
    enough = (chances > 0.02) & (chances < 1)
    assert (decoded[:, chances >= 1] == x[chances >= 1]).all()
    scores = (decoded.mean(axis=0, dtype=np.float64) - x)[enough] / deviation[enough]
    assert abs(np.sum(scores * np.sign(x[enough]))) / np.sqrt(enough.sum()) < 4.5
    assert np.count_nonzero(decoded) / decoded.size == pytest.approx(0.1, rel=0.05)


def test_cocktail_sends_the_largest_under_its_mask() -> None:
    x = bell()
    decoded = decode(Cocktail(0.1, 0.2, 8).encode(x, seed=4))
    places = places_of(4, 0.1, D)
    assert places.size == pytest.approx(0.1 * D, rel=0.1)
    strongest = places[np.argsort(-np.abs(x[places]))[: -(-places.size // 5)]]
    assert set(np.flatnonzero(decoded)) == set(strongest)
    step = np.abs(x[places]).max() / 127
    assert np.abs(decoded[strongest] - x[strongest]).max() <= 0.51 * step


def test_cocktails_rate_is_a_sixth_of_a_bit() -> None:
    assert 8 * len(Cocktail().encode(bell(size=200_000))) / 200_000 == pytest.approx(0.15, abs=0.02)


def test_powersgd_is_the_power_iteration() -> None:
    """Rank 1 by hand: P = M q / |M q|, Q = M^T P; warm start from the last Q; the rest stays behind."""
    layout = layout_of([(3, 4), (2,)])
    x = bell(3, 14)
    state = {"residual": np.zeros(14, np.float32), "factors": np.ones(4, np.float32)}
    first = send(PowerSGD(1), x, state, layout=layout)
    matrix = x[:12].reshape(3, 4).astype(np.float64)
    p = matrix @ np.ones(4)
    p /= np.linalg.norm(p)
    q = matrix.T @ p
    np.testing.assert_allclose(first.received[:12].reshape(3, 4), np.outer(p, q), atol=1e-5)
    np.testing.assert_array_equal(first.received[12:], x[12:])  # a vector travels as it is
    np.testing.assert_allclose(first.state["factors"], q, atol=1e-5)
    np.testing.assert_allclose(first.state["residual"], x - first.received, atol=1e-6)


def test_powersgd_finds_the_best_rank_by_and_by() -> None:
    layout, codec, state = layout_of([(30, 40)]), PowerSGD(2), {}
    matrix = bell(5, 1200).reshape(30, 40)
    left, sizes, right = np.linalg.svd(matrix.astype(np.float64))
    sizes[:2] *= 6
    matrix = (left[:, :30] * sizes) @ right[:30]
    best = float(np.sum(sizes[2:] ** 2))
    x = matrix.astype(np.float32).reshape(-1)
    for _ in range(6):
        sent = send(codec, x, {key: value for key, value in state.items() if key == "factors"}, layout=layout)
        state = sent.state
    assert np.sum((sent.received - x) ** 2) == pytest.approx(best, rel=0.01)


def test_powersgds_sizes_and_half_floats() -> None:
    layout = layout_of([(64, 576), (64,)])
    x = bell(2, 64 * 577)
    whole, half = (PowerSGD(2, values).encode(x, layout=layout) for values in ("float32", "float16"))
    assert inspect(whole)["sections"] == [16, 0, 4 * (2 * (64 + 576) + 64)]
    assert inspect(half)["sections"] == [16, 2, 2 * (2 * (64 + 576) + 64)]
    np.testing.assert_allclose(decode(half), decode(whole), atol=0.02)


def test_orthonormal_basis_of_dependent_columns() -> None:
    basis = orthonormal(np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0], [0.0, 0.0, 2.0]]))
    np.testing.assert_allclose(basis.T @ basis, np.diag([1.0, 0.0, 1.0]), atol=1e-12)


def test_dgc_by_hand() -> None:
    """m = 0.5 m + u, v += m, the larger half is sent, m and v are zero where sent."""
    dgc = DGC(0.5, 0.5, warm_up=False)
    first = send(dgc, np.array([1.0, -2.0], np.float32))
    second = send(dgc, np.array([1.0, 0.5], np.float32), first.state)  # m = 1.5, 0.5; v = 2.5, 0.5
    assert second.received.tolist() == [2.5, 0.0]
    assert second.state["residual"].tolist() == [0.0, 0.5]
    assert second.state["momentum"].tolist() == [0.0, 0.5]


def test_dgc_warms_up_client_by_client() -> None:
    state, kept = {}, []
    for seed in range(6):
        sent = send(DGC(0.001), bell(seed), state)
        state, kept = sent.state, [*kept, np.count_nonzero(sent.received)]
    assert kept == [5000, 1250, 313, 79, 20, 20]


def test_sparselocos_residual_decays() -> None:
    first = send(SparseLoCo(0.5, 0.9, "float32"), np.array([1.0, -2.0], np.float32))
    second = send(SparseLoCo(0.5, 0.9, "float32"), np.array([0.5, 0.25], np.float32), first.state)
    np.testing.assert_allclose(second.received, [1.4, 0.0], rtol=1e-6)


@pytest.mark.parametrize("budget", [200, 1000, 5000])
def test_the_entries_fill_the_budget(budget: int) -> None:
    x = bell()
    sent = send(SparseLoCo(1.0), x, budget_bytes=budget)
    assert 0.85 * budget <= len(sent.payload) <= 1.05 * budget
    assert SparseLoCo(1.0).mismatch(sent.payload, fitted=True) == ""
    assert within(TopK(0.01), x, 10**6).kept(D) == 200  # never more than the codec's own


@pytest.mark.parametrize("codec", [DGC(0.5, 0.5, warm_up=False), SparseLoCo(0.5, 1.0), PowerSGD(1)])
def test_what_did_not_arrive_goes_with_the_next(codec: Codec) -> None:
    x, layout = bell(2, 12), layout_of([(3, 4)])
    first = send(codec, x, layout=layout)
    kept = codec.undelivered(first.state, first.payload)
    np.testing.assert_allclose(kept["residual"], x, atol=1e-3)


def test_feddqs_bits_follow_the_range_of_each_tensor() -> None:
    """Ranges 0.1 and 1: ceil(log2 20) = 5 and ceil(log2 200) = 8 bits; codes lie on the grid between the extremes."""
    x = np.concatenate([np.linspace(0, 0.1, 80), np.linspace(-0.5, 0.5, 40)]).astype(np.float32)
    payload = FedDQ(0.005).encode(x, 1, [80, 40])
    assert inspect(payload)["sections"] == [8, 8, 8, 2, 50 + 40]
    decoded = decode(payload)
    for part, span, bits in ((slice(0, 80), 0.1, 5), (slice(80, 120), 1.0, 8)):
        steps = (decoded[part] - x[part].min()) * (2**bits - 1) / span
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-3)
        assert np.abs(decoded[part] - x[part]).max() <= span / (2**bits - 1) * 1.001


def test_feddq_is_unbiased() -> None:
    x = layered()
    decoded = np.array([decode(FedDQ(0.05).encode(x, seed, LAYOUT)) for seed in range(200)])
    spread = decoded.std(axis=0, dtype=np.float64)
    drawn = spread > 1e-9
    scores = (decoded.mean(axis=0, dtype=np.float64) - x)[drawn] / spread[drawn] * np.sqrt(200)
    assert abs(scores.sum()) / np.sqrt(drawn.sum()) < 4.5
    assert np.mean(scores**2) < 1.3


def test_terngrad_draws_each_entry_with_the_chance_of_its_share_of_the_largest() -> None:
    x = np.array([2.0, -1.0, 0.5, 0.0], np.float32)
    drawn = np.stack([decode(TernGrad("tensor").encode(x, seed, [4])) for seed in range(4000)])
    assert set(np.unique(drawn).tolist()) == {-2.0, 0.0, 2.0}
    assert np.mean(drawn != 0, axis=0) == pytest.approx([1.0, 0.5, 0.25, 0.0], abs=0.03)
    assert (np.sign(drawn) * np.sign(x) >= 0).all()


def test_stc_with_feedback_sends_the_mean_magnitude_of_the_largest_and_keeps_the_rest() -> None:
    first = send(ErrorFeedback(STC(0.5)), np.array([4.0, -2.0, 1.0, 0.5], np.float32))
    assert first.received.tolist() == [3.0, -3.0, 0.0, 0.0]
    assert first.state["residual"].tolist() == [1.0, 1.0, 1.0, 0.5]
    second = send(ErrorFeedback(STC(0.5)), np.array([0.0, -1.0, 1.0, 0.5], np.float32), first.state)
    assert second.received.tolist() == [1.5, 0.0, 1.5, 0.0]  # of 1, 0, 2 and 1: the first of two equal ones
    assert second.state["residual"].tolist() == [-0.5, 0.0, 0.5, 1.0]
