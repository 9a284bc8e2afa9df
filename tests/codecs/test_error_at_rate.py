"""NMSE at 1, 2, 3 and 4 real bits a parameter, the whole payload counted: dither, one scale for the vector."""

import numpy as np
import pytest

from adagq.codecs import QSGD, decode

MILLION = 1_000_000
NORMAL = {1: 0.5885, 2: 0.1009, 3: 0.02348, 4: 0.005768}  # EDEN's entropy-coded figures + 10, 3, 3, 3 %
T3 = {1: 0.459, 2: 0.073, 3: 0.0165, 4: 0.0040}  # the dither row of the peers


def finest(x: np.ndarray, bits: float) -> bytes:
    """Return the payload with the most levels that takes at most `bits` a parameter."""
    low, high = 1, 65535
    best = b""
    while low <= high:
        middle = (low + high) // 2
        payload = QSGD(middle, "vector", "l2", "dither", "entropy").encode(x, seed=17)
        if 8 * len(payload) <= bits * x.size:
            best, low = payload, middle + 1
        else:
            high = middle - 1
    return best


def squared_error(x: np.ndarray, bits: float) -> float:
    return float(np.mean((decode(finest(x, bits)).astype(np.float64) - x) ** 2))


@pytest.mark.parametrize("bits", NORMAL)
def test_normal(bits: int) -> None:
    x = np.random.default_rng(11).standard_normal(MILLION).astype(np.float32)
    nmse = squared_error(x, bits)  # the variance is 1
    print(f"normal, {bits} bits: {nmse:.5f}, allowed {NORMAL[bits]}")
    assert nmse <= NORMAL[bits]


@pytest.mark.parametrize("bits", T3)
def test_t3(bits: int) -> None:
    """Relative to t3's true variance, 3: that of a sample hangs on its few largest numbers, the error does not."""
    errors = [
        squared_error(np.random.default_rng(s).standard_t(3, MILLION).astype(np.float32), bits) for s in (1, 2, 3)
    ]
    nmse = float(np.mean(errors)) / 3.0
    print(f"t3, {bits} bits: {nmse:.5f}, allowed {T3[bits]}")
    assert nmse <= T3[bits]


@pytest.mark.parametrize("bits", NORMAL)
def test_layered_is_far_below_normal(bits: int) -> None:
    """Tensors decades apart: a rotation (EDEN) mixes them to one normal vector, here the small ones cost nothing."""
    rng = np.random.default_rng(4)
    x = (rng.standard_normal(MILLION) * np.repeat([1.0, 0.1, 0.01, 0.001], MILLION // 4)).astype(np.float32)
    nmse = squared_error(x, bits) / float(np.mean(x.astype(np.float64) ** 2))
    print(f"layered, {bits} bits: {nmse:.6f}")
    assert nmse <= 0.25 * NORMAL[bits]
