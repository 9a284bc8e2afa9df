"""The contract of `adagq.core.codec`, held against every configuration of every codec."""

from collections.abc import Callable

import numpy as np
import pytest
from codec_cases import CODECS, EVERY, QSGDS, SIGNSGDS, TERNGRADS, TOPKS, bound_of, name, starts_of
from contract import CHECKS, LAYOUT, ODD_VECTORS, SIZES, layered, sizes_of

from adagq.codecs import (
    QSGD,
    STC,
    Codec,
    Float16,
    Float32,
    NonFiniteError,
    SignSGD,
    TernGrad,
    TopK,
    decode,
    decode_into,
)
from adagq.codecs.wire import frame_size, parse
from adagq.core.vectors import Layout

every = pytest.mark.parametrize("codec", CODECS, ids=name)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("codec", EVERY, ids=name)
def test_contract(codec: Codec, check: Callable[[Codec], None]) -> None:
    check(codec)


def assert_within(codec: Codec, x: np.ndarray, decoded: np.ndarray, sizes: list[int]) -> None:
    assert decoded.dtype == np.float32
    assert decoded.shape == x.shape
    error = np.abs(decoded.astype(np.float64) - x)
    bound = bound_of(codec, x.astype(np.float32), sizes)
    worst = int(np.argmax(error - bound)) if x.size else 0
    assert (error <= bound).all(), f"[{worst}]: {x[worst]} -> {decoded[worst]}, allowed error {bound[worst]}"


@every
def test_round_trip_within_bound(codec: Codec) -> None:
    x = layered()
    for seed in (0, 2**64 - 1, -1, 2**70):  # seeds are taken modulo 2^64, on both sides
        assert_within(codec, x, decode(codec.encode(x, seed=seed, layout=SIZES)), SIZES)


@every
def test_odd_vectors_within_bound(codec: Codec) -> None:
    for numbers in ODD_VECTORS.values():
        x = np.array(numbers, np.float32)
        sizes = sizes_of(x.size)
        assert_within(codec, x, decode(codec.encode(x, seed=3, layout=sizes)), sizes)


@every
def test_sizes_say_as_much_as_a_layout(codec: Codec) -> None:
    x = layered()
    payload = codec.encode(x, seed=1, layout=SIZES)
    assert codec.encode(x, seed=1, layout=LAYOUT) == codec.encode(x, seed=1, layout=Layout.of_sizes(SIZES)) == payload


@every
def test_a_seed_changes_the_draws_and_nothing_else(codec: Codec) -> None:
    one, other = (parse(codec.encode(layered(), seed=s, layout=SIZES)).sections for s in (5, 6))
    same = [a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True)]
    assert all(same) == isinstance(codec, Float32 | Float16 | TopK | SignSGD | STC)


def test_what_differs_is_named() -> None:
    payload = QSGD(7, 100, "max", "dither", "entropy").encode(layered())
    assert QSGD(7, "tensor").mismatch(payload) == "granularity bucket 100, asked for was tensor"
    assert QSGD(7, 100, "l2").mismatch(payload) == "norm max, asked for was l2"
    assert QSGD(7, 100, "max").mismatch(payload) == "rounding dither, asked for was stochastic"
    assert QSGD(7, 100, "max", "dither", "fixed").mismatch(payload) == "packing entropy, asked for was fixed"
    assert QSGD(255, 100, "max", "dither").mismatch(payload) == "levels = 7, asked for were 255"
    assert QSGD(255, 100, "max", "dither").mismatch(payload, fitted=True) == ""
    assert TopK().mismatch(payload) == "a payload with codec tag 3, asked for was 4"
    topk = TopK(0.1, "float16", "plain").encode(layered())
    assert TopK(0.1, "float32", "plain").mismatch(topk) == "values = float16, asked for was float32"
    assert TopK(0.1, "float16", "coded").mismatch(topk) == "indices = plain, asked for was coded"
    assert SignSGD("tensor").mismatch(SignSGD(64).encode(layered())) == "granularity bucket 64, asked for was tensor"


BIG = 700_000
THREADED = [Float32(), Float16(), TopK(0.1), TernGrad(), SignSGD(), SignSGD("tensor")]
THREADED += [
    QSGD(levels, granularity, "l2", rounding, packing)
    for levels, granularity in [(3, "tensor"), (255, "vector"), (2000, "vector"), (2000, 4096)]
    for rounding in ("stochastic", "dither")
    for packing in ("fixed", "entropy")
]


@pytest.mark.parametrize("codec", THREADED, ids=name)
def test_threads_change_no_byte(codec: Codec) -> None:
    sizes = [1, 100_000, 333_333, BIG - 433_334]
    x = layered(2, sizes)
    payload = codec.encode(x, seed=8, layout=sizes)
    assert codec.encode(x, seed=8, layout=sizes, threads=2) == payload
    assert codec.encode(x, seed=8, layout=sizes, threads=5) == payload
    np.testing.assert_array_equal(decode(payload, threads=2), decode(payload))
    one, two = np.ones(BIG, np.float32), np.ones(BIG, np.float32)
    decode_into(payload, one, 0.3, threads=1)
    decode_into(payload, two, 0.3, threads=3)
    np.testing.assert_array_equal(one, two)


def test_large_entropy_payloads_have_several_segments() -> None:
    payload = QSGD(2000, packing="entropy").encode(layered(2, [BIG]))
    assert 8 * len(payload) > 2 * 2**19
    assert parse(payload).sections[2].size >= 4 * 2


def coded_sections(codec: Codec, elements: int, sizes: list[int]) -> list[int]:
    spans = starts_of(codec.granularity, elements, sizes).size - 1
    return [4 * spans, 4 * spans] if codec.granularity == "tensor" else [4 * spans]


@pytest.mark.parametrize("elements", [0, 1, 31, 2047, 2048, 2049, 6000])
@pytest.mark.parametrize("codec", [c for c in (*QSGDS, *TERNGRADS) if c.packing == "fixed"], ids=name)
def test_fixed_packing_takes_exactly_its_bits(codec: QSGD | TernGrad, elements: int) -> None:
    sizes = sizes_of(elements)
    levels = 1 if isinstance(codec, TernGrad) else codec.levels
    width = int(np.ceil(np.log2(2 * levels + 1)))
    words = 4 * -(-elements * width // 32)
    payload = codec.encode(layered(1, sizes), layout=sizes)
    assert len(payload) == frame_size([*coded_sections(codec, elements, sizes), words])


@pytest.mark.parametrize("elements", [0, 1, 31, 2048, 6000])
def test_other_exact_sizes(elements: int) -> None:
    sizes = sizes_of(elements)
    x = layered(1, sizes)
    assert len(Float32().encode(x)) == frame_size([4 * elements])
    assert len(Float16().encode(x)) == frame_size([2 * elements])
    for codec in SIGNSGDS:
        words = 4 * -(-elements // 32)
        assert len(codec.encode(x, layout=sizes)) == frame_size([*coded_sections(codec, elements, sizes), words])
    for codec in TOPKS:
        kept = codec.kept(elements)
        assert kept == min(elements, int(np.ceil(codec.fraction * elements)))
        value_bytes = kept * (4 if codec.values == "float32" else 2)
        size = len(codec.encode(x))
        if codec.indices == "plain":
            assert size == frame_size([value_bytes, 4 * kept])
        assert np.count_nonzero(decode(codec.encode(x))) <= kept


@pytest.mark.parametrize(
    ("make", "knob"),
    [
        (lambda: QSGD(levels=0), "levels"),
        (lambda: QSGD(levels=65536), "levels"),
        (lambda: QSGD(levels=2.5), "levels"),
        (lambda: QSGD(granularity="layer"), "granularity"),
        (lambda: QSGD(granularity=0), "granularity"),
        (lambda: QSGD(granularity=2**32), "granularity"),
        (lambda: QSGD(granularity=2.5), "granularity"),
        (lambda: QSGD(norm="l1"), "norm"),
        (lambda: QSGD(rounding="nearest"), "rounding"),
        (lambda: QSGD(packing="zip"), "packing"),
        (lambda: TopK(fraction=0.0), "fraction"),
        (lambda: TopK(fraction=1.5), "fraction"),
        (lambda: TopK(fraction=float("nan")), "fraction"),
        (lambda: TopK(values="bfloat16"), "values"),
        (lambda: TopK(indices="raw"), "indices"),
        (lambda: TernGrad(granularity=-1), "granularity"),
        (lambda: TernGrad(packing="zip"), "packing"),
        (lambda: SignSGD(granularity="row"), "granularity"),
        (lambda: QSGD(granularity="tensor").encode(np.ones(3, np.float32)), "layout"),
        (lambda: QSGD(granularity="tensor").encode(np.ones(3, np.float32), layout=[2, 2]), "layout"),
        (lambda: SignSGD(granularity="tensor").encode(np.ones(3, np.float32), layout=[4, -1]), "layout"),
    ],
)
def test_bad_knobs_name_themselves(make: object, knob: str) -> None:
    with pytest.raises(ValueError, match=knob):
        make()


@pytest.mark.parametrize(
    "codec", [QSGD(norm="l2"), QSGD(norm="max"), TernGrad(), SignSGD(), TopK(values="float16"), Float16(), Float32()]
)
def test_near_the_end_of_float32_it_decodes_or_refuses(codec: Codec) -> None:
    for x in (np.full(3000, 3e38, np.float32), np.array([3.4e38], np.float32), np.full(500, -1e37, np.float32)):
        try:
            payload = codec.encode(x)
        except NonFiniteError:
            continue
        assert np.isfinite(decode(payload)).all()


@pytest.mark.parametrize("out", [np.zeros(3), np.zeros((1, 3), np.float32), np.zeros(6, np.float32)[::2]])
def test_decode_into_refuses_what_it_cannot_fill(out: np.ndarray) -> None:
    with pytest.raises(ValueError, match="out"):
        decode_into(Float32().encode(np.ones(3, np.float32)), out)
