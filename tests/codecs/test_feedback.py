"""Error feedback: what is sent and what is kept are the original, and what is kept stays bounded."""

from dataclasses import dataclass

import numpy as np
import pytest

from adagq.codecs import QSGD, Codec, ErrorFeedback, Float32, TopK, levels_of, send
from adagq.core.codec import Encoded, Fitting, Stateful
from adagq.core.seeds import generator
from adagq.core.vectors import Layout, squared_norm

LAYOUT = Layout.of_sizes([600, 400])


@dataclass(frozen=True)
class Noisy(Float32):
    """An unbiased codec whose error has `nmse` times the energy of the vector, as few levels have."""

    nmse: float = 1.0

    def encode(self, vector, seed=0, layout=None, threads=1):
        noise = generator(seed, "noise").standard_normal(vector.size).astype(np.float32)
        noise *= np.sqrt(self.nmse * squared_norm(vector) / max(squared_norm(noise), 1e-30))
        return Float32().encode(vector + noise)


def fed_back(codec: Codec, v: np.ndarray, seed: int, state: dict | None = None) -> Encoded:
    return send(ErrorFeedback(codec), v, state or {}, seed=seed, layout=LAYOUT)


def residual_of(sent: Encoded) -> np.ndarray:
    return sent.state.get("residual", np.zeros_like(sent.vector))


def vector(seed: int = 0) -> np.ndarray:
    return generator(seed, "vector").standard_normal(1000).astype(np.float32)


@pytest.mark.parametrize("codec", [Float32(), Noisy(0.03), Noisy(20.0)])
def test_original_is_sent_plus_residual(codec: Codec) -> None:
    v = vector()
    first = fed_back(codec, v, 3)
    np.testing.assert_allclose(first.received + residual_of(first), v, atol=1e-6)
    assert first.payload == fed_back(codec, v, 3).payload
    second = fed_back(codec, v, 4, first.state)
    np.testing.assert_array_equal(second.vector, v + residual_of(first))
    np.testing.assert_allclose(second.received + residual_of(second), second.vector, atol=1e-5)
    assert second.energy == squared_norm(second.vector)
    assert second.error_energy == squared_norm(second.received - second.vector)


def test_floats_leave_nothing() -> None:
    assert fed_back(Float32(), vector(), 0).state == {}


def test_zero_vector_is_sent_as_it_is() -> None:
    assert not fed_back(Noisy(1.0), np.zeros(1000, np.float32), 0).received.any()


@pytest.mark.parametrize("nmse", [0.03, 1.0, 20.0])
def test_residual_never_outgrows_what_it_is_left_of(nmse: float) -> None:
    for seed in range(20):
        v = vector(seed)
        assert squared_norm(residual_of(fed_back(Noisy(nmse), v, seed))) <= squared_norm(v) * (1 + 1e-5)


@pytest.mark.parametrize("nmse", [0.5, 5.0, 20.0])
def test_residual_stays_bounded_over_rounds(nmse: float) -> None:
    """The trap: plain feedback at such noise grows without bound (norm 0.06 -> 76)."""
    v, state = vector(), {}
    for round in range(300):
        sent = fed_back(Noisy(nmse), v, round, state)
        state = sent.state
    # A contraction by (1 - 1/(1 + nmse)) settles below 2 (1 + nmse) times the input's norm.
    assert np.sqrt(squared_norm(residual_of(sent))) < 2 * (1 + nmse) * np.sqrt(squared_norm(v))


def test_the_numbers_are_those_of_two_plain_encodings() -> None:
    """The definition, written again: encode, project, encode what the projection leaves."""
    from adagq.codecs import decode

    codec, v = QSGD(3), vector() + vector(1)
    sent = fed_back(codec, vector(), 5, {"residual": vector(1)})
    received = decode(codec.encode(v, 5, LAYOUT))
    shrink = float(np.dot(v, received)) / squared_norm(received)
    assert shrink < 0.999
    assert sent.payload == codec.encode(np.float32(shrink) * v, 5, LAYOUT)
    np.testing.assert_array_equal(sent.state["residual"], v - decode(sent.payload))


def test_the_inner_codec_is_fitted_to_vector_and_residual() -> None:
    state, codec = {"residual": 9 * vector(1)}, QSGD(1)
    sent = send(ErrorFeedback(codec), vector(), state, layout=LAYOUT, budget_bytes=500)
    assert sent.codec == codec.fitted(vector() + state["residual"], 500, LAYOUT) != codec
    assert len(sent.payload) <= 510


def test_it_answers_for_the_codec_inside() -> None:
    wrapped = ErrorFeedback(QSGD(7, "tensor"))
    assert isinstance(wrapped, Codec)
    assert isinstance(wrapped, Stateful)
    assert isinstance(wrapped, Fitting)
    assert not wrapped.unbiased
    assert levels_of(wrapped) == 7
    assert wrapped.with_levels(15) == ErrorFeedback(QSGD(15, "tensor"))
    assert wrapped.max_bytes(1000, LAYOUT) == QSGD(7, "tensor").max_bytes(1000, LAYOUT)
    np.testing.assert_array_equal(wrapped.rate_curve(vector(), LAYOUT), wrapped.codec.rate_curve(vector(), LAYOUT))
    assert wrapped.mismatch(wrapped.encode(vector(), layout=LAYOUT)) == ""
    assert "tag" in wrapped.mismatch(TopK().encode(vector()))


def test_what_has_no_levels_keeps_none() -> None:
    assert levels_of(ErrorFeedback(TopK())) == levels_of(TopK()) == 0
    assert ErrorFeedback(TopK()).fitted(vector(), 10) == ErrorFeedback(TopK())
    with pytest.raises(ValueError, match="levels = 3"):
        ErrorFeedback(TopK()).with_levels(3)
    for bad in (ErrorFeedback(TopK()), "qsgd"):
        with pytest.raises(ValueError, match="plain codec"):
            ErrorFeedback(bad)
