"""Values that the sample behind the tables never saw: they escape, beside chunks whose tokens are all known."""

import numpy as np
import pytest

from adagq.codecs import QSGD, decode

ELEMENTS, CHUNK = 600 * 2048, 2048


@pytest.mark.parametrize("rounding", ["stochastic", "dither"])
@pytest.mark.parametrize("outlier", [7.0, -20.0, 3000.0])
def test_values_without_a_place_in_the_tables_arrive(rounding: str, outlier: float) -> None:
    vector = np.random.default_rng(5).uniform(-2, 2, ELEMENTS).astype(np.float32)
    vector[3 * CHUNK + 1 :: 97 * CHUNK] = outlier  # in few chunks: most are not sampled
    step = 1.0
    codec = QSGD(round(float(np.linalg.norm(vector)) / step), rounding=rounding)  # type: ignore[arg-type]
    decoded = decode(codec.encode(vector, seed=3))
    assert np.abs(decoded - vector).max() <= 1.01 * step
