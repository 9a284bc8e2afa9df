"""Codecs that build on the last aggregate, and those that vote, choose or hold back: their rules, by hand."""

import numpy as np
import pytest
from contract import layout_of

from adagq.codecs import (
    CMFL,
    Correlated,
    FairTopK,
    FedFQ,
    Float32,
    Nonzeros,
    PayloadError,
    PowerSGD,
    Projection,
    Signum,
    TopK,
    decode,
    decode_into,
    inspect,
    send,
)
from adagq.codecs.withholding import is_withheld

LAYOUT = layout_of([(12, 30), (7,)])
SIZE = 12 * 30 + 7


def bell(seed: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def low_rank(seed: int) -> np.ndarray:
    """An aggregate whose matrix is of rank 2."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 30))
    return np.concatenate([matrix.reshape(-1), rng.standard_normal(7)]).astype(np.float32)


def test_signum_sends_the_signs_of_its_momentum() -> None:
    codec = Signum(rate=0.25, momentum=0.5)
    first = send(codec, np.array([8.0, -2.0, 1.0], np.float32))
    assert first.received.tolist() == [0.25, -0.25, 0.25]
    second = send(codec, np.array([-3.0, 3.0, -1.0], np.float32), first.state)  # m = 4 - 3, -1 + 3, 0.5 - 1
    assert second.state["momentum"].tolist() == [1.0, 2.0, -0.5]
    assert second.received.tolist() == [0.25, 0.25, -0.25]


def test_cmfl_sends_where_more_signs_agree_than_the_threshold_over_the_roots_of_the_rounds() -> None:
    aggregate = np.array([1.0, 1.0, -1.0, -1.0, 1.0], np.float32)
    update = np.array([2.0, 3.0, -1.0, 5.0, -2.0], np.float32)  # 3 of 5 agree
    sent = {round: send(CMFL(Float32(), 0.9).at_round(round), update, reference=aggregate) for round in (1, 2, 3, 9)}
    assert {round: is_withheld(one.payload) for round, one in sent.items()} == {1: True, 2: True, 3: False, 9: False}
    assert len(sent[1].payload) == 52
    assert sent[1].received.tolist() == [0.0] * 5
    assert sent[3].received.tolist() == update.tolist()
    for one in sent.values():
        assert CMFL(Float32(), 0.9).mismatch(one.payload) == ""
    assert "tag 4" in CMFL(Float32()).mismatch(TopK().encode(update))


def test_cmfl_sends_everything_before_the_first_aggregate() -> None:
    for reference in (None, np.zeros(5, np.float32)):
        assert not is_withheld(send(CMFL(Float32(), 1.0), bell(1, 5), reference=reference).payload)


def test_fedfq_spends_its_bits_on_large_entries_and_counts_the_map() -> None:
    x = bell(1, 20_000) ** 5
    for bits in (0.25, 1.0, 2.0):
        codec = FedFQ(bits)
        classes = codec.classes(x)
        spent = sum(int((classes == kind).sum()) * width for kind, width in enumerate((2, 4, 8)))
        assert 0.97 * bits * x.size <= spent <= bits * x.size
        assert np.abs(x[classes == 2]).min() >= np.abs(x[classes == 1]).max() >= np.abs(x[classes == 0]).max()
        assert 8 * len(codec.encode(x)) > 1.2 * bits * x.size  # the map is in the payload


def test_fedfq_rounds_within_a_step_of_its_class() -> None:
    x = np.array([1.0, -1.0, 7.0, -14.0, 127.0, -254.0, 0.01, 0.0], np.float32)
    codec = FedFQ(28 / 8)  # 2 + 2 + 4 + 4 + 8 + 8 bits of eight entries
    assert codec.classes(x).tolist() == [0, 0, 1, 1, 2, 2, -1, -1]
    sent = decode(codec.encode(x, seed=1))
    assert sent.tolist() == [1.0, -1.0, *sent[2:4], *sent[4:6], 0.0, 0.0]
    assert (np.abs(sent[2:4] - x[2:4]) <= 2.0).all()  # steps of 14 / 7
    assert (np.abs(sent[4:6] - x[4:6]) <= 2.0).all()  # steps of 254 / 127


@pytest.mark.parametrize("side", [0, 1])
def test_projections_mean_is_the_projection_of_the_mean(side: int) -> None:
    aggregate, updates = low_rank(1), [bell(seed) for seed in (2, 3, 4)]
    codec = Projection(2, side=side)
    total = np.zeros(SIZE, np.float32)
    for weight, update in zip((0.5, 0.25, 0.25), updates, strict=True):
        sent = send(codec, update, layout=LAYOUT, reference=aggregate)
        np.testing.assert_allclose(sent.received + sent.state["residual"], update, atol=1e-6)
        decode_into(sent.payload, total, weight, reference=aggregate)
    mean = (0.5 * updates[0] + 0.25 * updates[1] + 0.25 * updates[2]).astype(np.float32)
    np.testing.assert_allclose(total, send(codec, mean, layout=LAYOUT, reference=aggregate).received, atol=1e-5)
    matrix, given = mean[:360].reshape(12, 30).astype(float), aggregate[:360].reshape(12, 30)
    basis = np.linalg.svd(given)[2][:2].T if side == 0 else np.linalg.svd(given)[0][:, :2]
    expected = matrix @ basis @ basis.T if side == 0 else basis @ basis.T @ matrix
    np.testing.assert_allclose(total[:360].reshape(12, 30), expected, atol=1e-4)
    np.testing.assert_allclose(total[360:], mean[360:], atol=1e-6)  # what is no matrix travels as it is


def test_sides_that_take_turns_find_the_best_approximation_and_broadcasts_lose_nothing() -> None:
    rng = np.random.default_rng(5)
    left, right = (np.linalg.qr(rng.standard_normal((size, size)))[0] for size in (12, 30))
    matrix = (left @ np.diag([9, 6, *[0.5] * 10]) @ right[:, :12].T).astype(np.float32)
    update = np.concatenate([matrix.reshape(-1), np.ones(7, np.float32)])
    aggregate, down = None, {}
    for round in range(1, 7):
        sent = send(Projection(2).at_round(round), update, layout=LAYOUT, reference=aggregate)
        broadcast = send(PowerSGD(2), sent.received, down, layout=LAYOUT)
        np.testing.assert_allclose(broadcast.received, sent.received, atol=2e-5)
        down, aggregate = broadcast.state, broadcast.received
    lost = np.sum((aggregate[:360].reshape(12, 30) - matrix) ** 2)
    assert lost < 1.02 * 10 * 0.5**2


def test_one_factor_is_half_of_both() -> None:
    both, one = (len(codec.encode(bell(1), layout=LAYOUT)) for codec in (PowerSGD(3), Projection(3)))
    assert both - one == 4 * 3 * 30
    assert len(Projection(3, side=1).encode(bell(1), layout=LAYOUT)) - one == 4 * 3 * (30 - 12)


def test_factors_of_a_byte_a_number() -> None:
    aggregate, update = low_rank(1), low_rank(2)
    fine, coarse = (send(Projection(2, v), update, layout=LAYOUT, reference=aggregate) for v in ("float32", "int8"))
    assert len(fine.payload) - len(coarse.payload) == 4 * 31 - 32 - 8  # 31 numbers, padded; two scales
    assert np.abs(coarse.received - fine.received).max() < 0.02 * np.abs(fine.received).max()


@pytest.mark.parametrize("codec", [Projection(2), Correlated(0.05, 0.02)])
def test_a_receiver_without_the_same_aggregate_refuses(codec: Projection | Correlated) -> None:
    payload = send(codec, bell(1), layout=LAYOUT, reference=low_rank(1)).payload
    for reference, why in ((None, "needs the last aggregate"), (low_rank(2), "another aggregate")):
        with pytest.raises(PayloadError, match=why):
            decode(payload, reference=reference)
    with pytest.raises(PayloadError, match="shape"):
        decode(payload, reference=np.ones(3, np.float32))
    without = send(codec, bell(1), layout=LAYOUT, reference=np.zeros(SIZE, np.float32)).payload
    np.testing.assert_array_equal(decode(without), decode(without, reference=low_rank(2)))  # builds on nothing


def test_what_was_lost_on_its_way_comes_back_whole() -> None:
    aggregate, update = low_rank(1), bell(1)
    for codec in (Projection(2), Correlated(0.05, 0.02)):
        sent = send(codec, update, layout=LAYOUT, reference=aggregate)
        back = codec.undelivered(sent.state, sent.payload, aggregate)
        np.testing.assert_allclose(back["residual"], update, atol=1e-6)
    sent = send(FairTopK(0.1), update)
    np.testing.assert_allclose(FairTopK(0.1).undelivered(sent.state, sent.payload)["residual"], update, atol=1e-6)


def test_correlated_sends_values_on_the_mask_without_indices() -> None:
    aggregate = np.array([0.0, -9.0, 0.0, 8.0, 1.0, 0.0, 0.0, 0.0], np.float32)
    update = np.array([3.0, 1.0, -4.0, 0.5, 0.25, 2.0, 0.0, 0.0], np.float32)
    sent = send(Correlated(shared=0.25, own=0.25), update, reference=aggregate)
    assert sent.received.tolist() == [3.0, 1.0, -4.0, 0.5, 0.0, 0.0, 0.0, 0.0]  # 1 and 3 by the mask, 0 and 2 its own
    assert sent.state["residual"].tolist() == [0.0, 0.0, 0.0, 0.0, 0.25, 2.0, 0.0, 0.0]
    assert inspect(sent.payload)["sections"][4] == 2 * 2  # two float16 numbers


def test_fair_topk_takes_back_what_the_server_did_not_choose() -> None:
    first = send(FairTopK(0.5), np.array([4.0, -3.0, 1.0, 0.5], np.float32))
    assert first.received.tolist() == [4.0, -3.0, 0.0, 0.0]
    chosen = np.array([1.0, 0.0, 0.0, 2.0], np.float32)
    second = send(FairTopK(0.5), np.array([0.5, 0.0, 0.0, 0.0], np.float32), first.state, reference=chosen)
    assert second.vector.tolist() == [0.5, -3.0, 1.0, 0.5]


def test_nonzeros_loses_nothing_of_a_sparse_mean() -> None:
    mean = np.where(np.arange(5000) % 50 == 0, bell(1, 5000), np.float32(0))
    payload = Nonzeros(0.5).encode(mean)
    np.testing.assert_array_equal(decode(payload), mean)
    assert len(payload) < 100 * 4 + 300
    assert np.count_nonzero(decode(Nonzeros(0.01).encode(mean))) == 50
