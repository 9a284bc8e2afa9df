"""Aggregates of a method's own, and clients that hold back: numbers by hand."""

import numpy as np
import pytest

from adagq.codecs import CMFL, Codec, Float32, Projection, Signum, TopK, send
from adagq.codecs.withholding import Withheld
from adagq.core.messages import Update
from adagq.core.vectors import Layout
from adagq.server.intake import Bounds, Intake, Usual
from adagq.server.robust import AGGREGATES

LAYOUT = Layout.of_sizes([4])


def update(client: int, vector: list[float], codec: Codec = Float32(), examples: int = 10) -> Update:  # noqa: B008
    payload = codec.encode(np.array(vector, np.float32), layout=LAYOUT)
    return Update(client, 1, examples, payload, b"", 0, 1.0, 0.0)


def mean_of(name: str, *updates: Update) -> list[float]:
    total = AGGREGATES[name](LAYOUT, 0.3)
    for one in updates:
        total.add_clipped(one)
    return total.mean().tolist()


def test_the_sign_of_most_without_weights_and_ties_by_turns() -> None:
    votes = [
        update(0, [1.0, -1.0, 1.0, 1.0], Signum(0.5), examples=1000),
        update(1, [-2.0, -1.0, -1.0, -9.0], Signum(0.5)),
        update(2, [-3.0, 1.0, 1.0, 1.0], Signum(0.5)),
    ]
    assert mean_of("majority", *votes) == [-0.5, -0.5, 0.5, 0.5]
    assert mean_of("majority", *votes[:2]) == [0.5, -0.5, 0.5, -0.5]  # 0, 2 and 3 are ties


def test_every_clients_largest_entry_comes_before_anybodys_second() -> None:
    updates = [
        update(0, [9.0, 8.0, 0.0, 0.0], TopK(0.5), examples=30),
        update(1, [0.0, 0.0, 2.0, -1.0], TopK(0.5), examples=10),
    ]
    # k = 2: client 0's entry 0 and client 1's entry 2, though client 0's entry 1 is larger.
    assert mean_of("fair", *updates) == [9.0 * 0.75, 0.0, 2.0 * 0.25, 0.0]
    third = update(2, [0.0, 7.0, 0.0, 3.0], TopK(0.5), examples=10)
    assert mean_of("fair", *updates, third) == pytest.approx([9 * 0.6, 8 * 0.6 + 7 * 0.2, 0.0, 0.0])


def intake(clients: int, **given: object) -> tuple[Intake, list[str]]:
    said: list[str] = []
    note = lambda client, reason: said.append(reason)  # noqa: E731
    return Intake(LAYOUT, range(clients), Usual(), Bounds(norm=5.0), note, note, **given), said


def test_the_mean_is_over_those_that_did_not_hold_back() -> None:
    one, said = intake(4)
    for held_back in (0, 2, 3):
        one.put(update(held_back, [9.0] * 4, Withheld(), examples=1000))
    one.put(update(1, [1.0, 2.0, 3.0, 4.0]))
    closed = one.close()
    assert closed is not None
    assert closed[0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert sorted(one.accepted) == [0, 1, 2, 3]
    assert one.learnt().norms == (pytest.approx(30**0.5),)
    assert said == []


def test_if_all_hold_back_the_model_stays() -> None:
    one, _ = intake(2, buffers=np.array([5.0], np.float32))
    for client in range(2):
        one.put(update(client, [9.0] * 4, Withheld()))
    closed = one.close()
    assert closed is not None
    assert [part.tolist() for part in closed] == [[0.0] * 4, [5.0]]


def test_a_codec_that_may_not_hold_back_is_refused_when_it_does() -> None:
    payload = Withheld().encode(np.zeros(4, np.float32))
    assert CMFL(Float32()).mismatch(payload) == ""
    assert "tag 14" in Float32().mismatch(payload)


@pytest.mark.parametrize("aggregate", ["mean", "median", "krum"])
def test_payloads_that_build_on_the_last_step_are_added_up(aggregate: str) -> None:
    layout = Layout.of({"weight": np.zeros((6, 9), np.float32)})
    step = np.outer(np.arange(6.0), np.ones(9)).astype(np.float32).reshape(-1)
    vector = np.random.default_rng(1).standard_normal(54).astype(np.float32)
    sent = send(Projection(1), vector, layout=layout, reference=step)
    said: list[str] = []
    note = lambda client, reason: said.append(reason)  # noqa: E731
    for reference, reasons in ((step, 0), (None, 3), (2 * step, 3)):
        said.clear()
        one = Intake(layout, range(3), Usual(), Bounds(norm=5.0), note, note, aggregate, reference=reference)
        for client in range(3):
            one.put(Update(client, 1, 10, sent.payload, b"", 0, 1.0, 0.0))
        closed = one.close()
        assert len(said) == reasons
        if not reasons:
            assert closed is not None
            np.testing.assert_allclose(closed[0], sent.received, rtol=1e-5, atol=1e-6)
