"""E[decode(encode(v))] = v over seeds, where a codec says so: signed errors add up to what chance allows.

The errors of one element over seeds, and of elements under one seed, are independent and of mean zero. Their sum
over all elements of similar |x| / step, divided by the root of the sum of their squares, is therefore about normal:
|z| < 4.5 for every band, once with the element's sign (a shrinking or growing codec) and once without (an offset).
"""

from itertools import product

import numpy as np
import pytest
from codec_cases import CODECS, name, scales_of
from contract import SIZES, layered

from adagq.codecs import QSGD, Codec, Float32, TernGrad, decode

LIMIT = 4.5
FEWEST = 40  # decoded numbers that differ from the commonest one, below which a sum is not normal yet

UNBIASED = [c for c in CODECS if c.unbiased and c != Float32() and getattr(c, "levels", 1) in (1, 3, 255)]


def z_scores(codec: Codec, x: np.ndarray, steps: np.ndarray, sizes: list[int], seeds: int) -> dict[str, float]:
    """Return z for every octave of |x| / step in which enough happens."""
    wide = x.astype(np.float64)
    with np.errstate(divide="ignore"):
        bands = np.maximum(np.floor(np.log2(np.abs(wide) / steps)), -40).astype(int)
    sums, mirrored, squares = np.zeros(x.size), np.zeros(x.size), np.zeros(x.size)
    events = np.zeros(x.size)
    for seed in range(seeds):
        decoded = decode(codec.encode(x, seed=1000 + seed, layout=sizes))
        error = (decoded - wide) / steps
        sums += error
        mirrored += error * np.sign(wide)
        squares += error**2
        events += np.abs(error) > np.abs(wide) / steps * 1.01  # left zero, where zero is the commonest
    out = {}
    for band in np.unique(bands):
        of = bands == band
        if events[of].sum() < FEWEST:
            continue
        spread = np.sqrt(squares[of].sum())
        out[f"2^{band}"] = float(sums[of].sum() / spread)
        out[f"2^{band} mirrored"] = float(mirrored[of].sum() / spread)
    return out


@pytest.mark.parametrize("codec", UNBIASED, ids=name)
def test_unbiased(codec: Codec) -> None:
    x = layered()
    qsgd = codec.qsgd if isinstance(codec, TernGrad) else codec
    assert isinstance(qsgd, QSGD)
    steps = scales_of(qsgd, x.astype(np.float64), SIZES) / qsgd.levels
    scores = z_scores(codec, x, steps, SIZES, seeds=40)
    assert scores
    assert max(map(abs, scores.values())) < LIMIT, scores


@pytest.mark.parametrize(("rounding", "packing"), list(product(("stochastic", "dither"), ("fixed", "entropy"))))
def test_unbiased_in_every_family(rounding: str, packing: str) -> None:
    """Bands from one step down to 2^-14 of it, the rarer the longer, each in chunks of its own: dense, sparse, rare."""
    rng = np.random.default_rng(5)
    exponents = np.arange(1, 15)
    lengths = 2048 * np.array([2, 2, 2, 2, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32])
    scale = np.repeat(2.0**-exponents, lengths)
    x = (scale * rng.uniform(0.5, 1.0, scale.size) * rng.choice([-1, 1], scale.size)).astype(np.float32)
    x[0] = 1.0
    assert x.size >= 2**18  # long enough for the long chunks
    codec = QSGD(1, "vector", "max", rounding, packing)
    scores = z_scores(codec, x, np.ones(x.size), [x.size], seeds=24)
    assert len(scores) >= 2 * 13, scores
    assert max(map(abs, scores.values())) < LIMIT, scores


def test_the_score_finds_a_bias() -> None:
    """Top-k shrinks: the same statistic must say so."""
    from adagq.codecs import TopK

    x = layered()
    scores = z_scores(TopK(0.5), x, np.full(x.size, 0.01), SIZES, seeds=5)
    assert scores == {} or max(map(abs, scores.values())) > LIMIT
    biased = z_scores(_Shrunk(), x, np.full(x.size, 0.01), SIZES, seeds=20)
    assert max(map(abs, biased.values())) > LIMIT


class _Shrunk:
    """QSGD of 97 % of the vector."""

    unbiased = False

    def encode(self, x: np.ndarray, seed: int = 0, layout: list[int] | None = None, threads: int = 1) -> bytes:
        return QSGD(255).encode(x * np.float32(0.97), seed, layout, threads)

    def rate_curve(self, x: np.ndarray, layout: list[int] | None = None) -> np.ndarray:
        return QSGD(255).rate_curve(x, layout)
