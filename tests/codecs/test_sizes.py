"""What entropy packing weighs: against the zero-order entropy, fixed packing, its own prediction and a budget."""

import numpy as np
import pytest
from codec_cases import KINDS, million

from adagq.codecs import QSGD, STC, TopK, decode
from adagq.codecs.wire import parse

ENTROPY_LEVELS = (1, 2, 3, 5, 7, 15, 31, 63, 127, 255, 511, 1023, 4095, 16383, 65535)
CASES = [(kind, "vector", norm) for kind in KINDS for norm in ("l2", "max")]
CASES += [("layered", "tensor", "l2"), ("layered", "tensor", "max"), ("layered", 4096, "max")]


def entropy_bits(symbols: np.ndarray) -> float:
    """Zero-order entropy of all symbols together, in bits."""
    counts = np.unique_counts(symbols).counts
    return float(symbols.size * np.log2(symbols.size) - (counts * np.log2(counts)).sum())


def integer_levels(codec: QSGD, payload: bytes, sizes: list[int]) -> np.ndarray:
    """The integers that stochastic rounding drew, read off the decoded numbers."""
    frame = parse(payload)
    scales = frame.sections[int(codec.granularity == "tensor")].view(np.float32).astype(np.float64)
    if codec.granularity == "tensor":
        scales = np.repeat(scales, sizes)
    elif codec.granularity != "vector":
        scales = np.repeat(scales, codec.granularity)[: frame.elements]
    exact = decode(payload) * (codec.levels / scales)
    levels = np.rint(exact)
    assert np.abs(exact - levels).max() < 0.05
    return levels.astype(np.int32)


@pytest.mark.parametrize(("kind", "granularity", "norm"), CASES)
def test_within_2_percent_of_the_zero_order_entropy(kind: str, granularity: str | int, norm: str) -> None:
    """For stochastic rounding the whole payload; its symbols are coded given the random number, so mostly below."""
    x, sizes = million(kind)
    ratios = {}
    for levels in ENTROPY_LEVELS:
        codec = QSGD(levels, granularity, norm, "stochastic", "entropy")
        payload = codec.encode(x, seed=levels, layout=sizes)
        symbols = integer_levels(codec, payload, sizes)
        if granularity == "tensor" and levels < 65535:  # there most tensors have fewer elements than levels
            limit = sum(entropy_bits(piece) for piece in np.split(symbols, np.cumsum(sizes)[:-1]))
        else:
            limit = entropy_bits(symbols)
        scales = 32.0 * (parse(payload).sections[0].size // 4 if isinstance(granularity, int) else 1)
        ratios[levels] = 8 * len(payload) / (limit + scales)
    print(f"{kind:8} {granularity!s:6} {norm:3}", " ".join(f"{s}:{r:.4f}" for s, r in ratios.items()))
    assert max(ratios.values()) <= 1.02, ratios


@pytest.mark.parametrize("rounding", ["stochastic", "dither"])
@pytest.mark.parametrize("kind", KINDS)
def test_never_larger_than_fixed_packing_and_64_bytes(kind: str, rounding: str) -> None:
    x, _ = million(kind)
    noise = np.random.default_rng(0).uniform(-1, 1, x.size).astype(np.float32)
    for vector in (x[:0], x[:1], x[:7], x[:100], x[:2000], x[:100_000], noise[:50], noise[:300_000]):
        for granularity in ("vector", 64):
            for levels in (1, 3, 127, 65535):
                entropy, fixed = (
                    len(QSGD(levels, granularity, "max", rounding, p).encode(vector)) for p in ("entropy", "fixed")
                )
                assert entropy <= fixed + 64, (vector.size, granularity, levels)


@pytest.mark.parametrize("rounding", ["stochastic", "dither"])
@pytest.mark.parametrize(("kind", "granularity"), [(k, "vector") for k in KINDS] + [("layered", "tensor")])
def test_rate_curve_within_5_percent(kind: str, granularity: str, rounding: str) -> None:
    x, sizes = million(kind, seed=2)
    for packing in ("entropy", "fixed"):
        codec = QSGD(1, granularity, "l2", rounding, packing)
        curve = codec.rate_curve(x, sizes)
        assert curve.shape == (16,)
        real = np.array(
            [
                8 * len(QSGD(2**b - 1, granularity, "l2", rounding, packing).encode(x, seed=b, layout=sizes))
                for b in range(1, 17)
            ]
        )
        if packing == "fixed":
            np.testing.assert_array_equal(curve, real)
        else:  # and 40 bytes: with a few hundred non-zero symbols in a million, seeds differ by more than 5 %
            np.testing.assert_allclose(curve, real, rtol=0.05, atol=8 * 40)
        print(f"{kind:8} {granularity:6} {rounding:10} {packing}: {100 * np.abs(curve / real - 1).max():.2f} %")


@pytest.mark.parametrize("rounding", ["stochastic", "dither"])
@pytest.mark.parametrize("kind", KINDS)
def test_fitted_fills_its_budget(kind: str, rounding: str) -> None:
    x, sizes = million(kind, seed=3)
    fills = {}
    for bits in (0.05, 0.3, 1.0, 2.0, 4.0, 8.0):
        budget = int(bits * x.size / 8)
        for granularity in ("vector", "tensor"):
            codec = QSGD(1, granularity, "l2", rounding).fitted(x, budget, sizes)
            assert codec == QSGD(codec.levels, granularity, "l2", rounding)
            fill = len(codec.encode(x, seed=1, layout=sizes)) / budget
            fills[bits, granularity] = fill
            if bits >= 0.3 and codec.levels < 65535:  # below, one level more is a step of several percent
                assert fill >= 0.96, (bits, granularity, codec.levels)
    print(f"{kind:8} {rounding:10}", " ".join(f"{b}{g[0]}:{f:.3f}" for (b, g), f in fills.items()))
    assert max(fill for (bits, _), fill in fills.items() if bits >= 0.3) <= 1.0, fills
    assert max(fills.values()) <= 1.03, fills  # a few kilobytes: seeds differ


def test_fitted_ends() -> None:
    x, _ = million("normal")
    assert QSGD().fitted(x[:1000], 1).levels == 1
    assert QSGD().fitted(x[:1000], 10**9).levels == 65535
    assert QSGD(packing="fixed").fitted(x, x.size // 2 + 200).levels == 7  # the most that fit four bits


@pytest.mark.parametrize("fraction", [0.0001, 0.001, 0.01, 0.1, 0.5])
def test_top_k_indices_near_the_number_of_subsets(fraction: float) -> None:
    """log2 C(d, k) bits, on indices without pattern."""
    from math import lgamma, log

    x, _ = million("normal")
    codec = TopK(fraction)
    d, k = x.size, codec.kept(x.size)
    subsets = (lgamma(d + 1) - lgamma(k + 1) - lgamma(d - k + 1)) / log(2)
    index_bits = 8 * len(codec.encode(x)) - 32 * k
    print(f"{fraction}: {index_bits / subsets:.4f} of log2 C(d, k)")
    assert index_bits <= 1.03 * subsets + 8 * 160


@pytest.mark.parametrize("budget_bytes", [300, 1_000, 10_000, 20_000])
def test_stc_fills_its_budget_with_entries(budget_bytes: int) -> None:
    vector = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    payload = STC().fitted(vector, budget_bytes).encode(vector)
    assert 0.85 * budget_bytes < len(payload) <= budget_bytes


def test_stc_at_a_four_hundredth_takes_three_hundredths_of_a_bit() -> None:
    vector = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)
    entropy = 0.0277 * vector.size / 8  # of the places, and a sign bit an entry
    assert entropy < len(STC(1 / 400).encode(vector)) < entropy + 200
