"""Error feedback: what is sent and what is kept are the original, and what is kept stays bounded."""

from dataclasses import dataclass

import numpy as np
import pytest

from adagq.codecs import Codec, Float32
from adagq.feedback import send, squared_norm
from adagq.seeds import generator
from adagq.vectors import Layout

LAYOUT = Layout.of_sizes([600, 400])


@dataclass(frozen=True)
class Noisy:
    """An unbiased codec whose error has `nmse` times the energy of the vector, as few levels have."""

    nmse: float
    unbiased: bool = True

    def encode(self, vector, seed=0, layout=None, threads=1):
        noise = generator(seed, "noise").standard_normal(vector.size).astype(np.float32)
        noise *= np.sqrt(self.nmse * squared_norm(vector) / max(squared_norm(noise), 1e-30))
        return Float32().encode(vector + noise)

    def rate_curve(self, vector, layout=None):
        return Float32().rate_curve(vector, layout)


def vector(seed: int = 0) -> np.ndarray:
    return generator(seed, "vector").standard_normal(1000).astype(np.float32)


@pytest.mark.parametrize("codec", [Float32(), Noisy(0.03), Noisy(20.0)])
def test_original_is_sent_plus_residual(codec: Codec) -> None:
    v = vector()
    payload, sent, residual = send(codec, v, 3, LAYOUT)
    np.testing.assert_allclose(sent + residual, v, atol=1e-6)
    assert payload == send(codec, v, 3, LAYOUT).payload


def test_floats_leave_nothing() -> None:
    assert not send(Float32(), vector(), 0, LAYOUT).residual.any()


def test_zero_vector_is_sent_as_it_is() -> None:
    assert not send(Noisy(1.0), np.zeros(1000, np.float32), 0, LAYOUT).vector.any()


@pytest.mark.parametrize("nmse", [0.03, 1.0, 20.0])
def test_residual_never_outgrows_what_it_is_left_of(nmse: float) -> None:
    for seed in range(20):
        v = vector(seed)
        assert squared_norm(send(Noisy(nmse), v, seed, LAYOUT).residual) <= squared_norm(v) * (1 + 1e-5)


@pytest.mark.parametrize("nmse", [0.5, 5.0, 20.0])
def test_residual_stays_bounded_over_rounds(nmse: float) -> None:
    """The trap: plain feedback at such noise grows without bound (norm 0.06 -> 76)."""
    v, residual = vector(), np.zeros(1000, np.float32)
    for round in range(300):
        residual = send(Noisy(nmse), v + residual, round, LAYOUT).residual
    # A contraction by (1 - 1/(1 + nmse)) settles below 2 (1 + nmse) times the input's norm.
    assert np.sqrt(squared_norm(residual)) < 2 * (1 + nmse) * np.sqrt(squared_norm(v))
