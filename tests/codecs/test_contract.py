"""The contract of `adagq.codecs.codec`, held against every configuration of every codec."""

import dataclasses

import numpy as np
import pytest
from codec_cases import CODECS, ELEMENTS, QSGDS, SIGNSGDS, SIZES, TERNGRADS, TOPKS, bound_of, layered, name, starts_of

from adagq.codecs import QSGD, Codec, Float16, Float32, NonFiniteError, SignSGD, TernGrad, TopK, decode, decode_into
from adagq.codecs.wire import frame_size, parse
from adagq.vectors import Layout

every = pytest.mark.parametrize("codec", CODECS, ids=name)

ODD_VECTORS = {
    "empty": [],
    "one": [0.75],
    "one negative": [-3.0],
    "zero": [0.0],
    "all zero": [0.0] * 3000,
    "negative zeros": [-0.0] * 40,
    "constant": [0.5] * 2048,
    "denormal": np.linspace(-1e-40, 1e-40, 601),
    "smallest": [1e-45, 0.0, -1e-45],
    "1e30": np.linspace(-1e30, 1e30, 2100),
    "1e30 and 1": [1e30, 1.0, -1.0, 1e-30],
    "1e-36 beside 1": np.repeat([1.0, 1e-36, -1e-36, 2e-38, 1e-42], 501),
    "one of many": [0.0] * 2500 + [7.0] + [0.0] * 2500,
}


def sizes_of(elements: int) -> list[int]:
    return [elements // 3, 0, elements - elements // 3]


def assert_within(codec: Codec, x: np.ndarray, decoded: np.ndarray, sizes: list[int]) -> None:
    assert decoded.dtype == np.float32
    assert decoded.shape == x.shape
    error = np.abs(decoded.astype(np.float64) - x)
    bound = bound_of(codec, x.astype(np.float32), sizes)
    worst = int(np.argmax(error - bound)) if x.size else 0
    assert (error <= bound).all(), f"[{worst}]: {x[worst]} -> {decoded[worst]}, allowed error {bound[worst]}"


@every
def test_is_a_frozen_codec(codec: Codec) -> None:
    assert isinstance(codec, Codec)
    assert codec == type(codec)(**{k: getattr(codec, k) for k in codec.__dataclass_fields__})
    assert type(codec).__dataclass_params__.frozen
    assert hash(codec) == hash(dataclasses.replace(codec))


@every
def test_round_trip_within_bound(codec: Codec) -> None:
    x = layered()
    for seed in (0, 2**64 - 1, -1, 2**70):  # seeds are taken modulo 2^64, on both sides
        payload = codec.encode(x, seed=seed, layout=SIZES)
        assert isinstance(payload, bytes)
        assert_within(codec, x, decode(payload), SIZES)


@every
def test_odd_vectors(codec: Codec) -> None:
    for kind, numbers in ODD_VECTORS.items():
        x = np.array(numbers, np.float32)
        sizes = sizes_of(x.size)
        decoded = decode(codec.encode(x, seed=3, layout=sizes))
        assert np.isfinite(decoded).all(), kind
        assert_within(codec, x, decoded, sizes)
        if not x.any():
            assert not decoded.any(), kind


@every
def test_decode_into_adds_weighted(codec: Codec) -> None:
    payload = codec.encode(layered(), seed=4, layout=SIZES)
    vector = decode(payload)
    fresh = np.zeros(ELEMENTS, np.float32)
    decode_into(payload, fresh)
    np.testing.assert_array_equal(fresh, vector)
    for weight in (0.05, -2.0, 0.0):
        before = layered(9)
        out = before.copy()
        assert decode_into(payload, out, weight) is None
        expected = before.astype(np.float64) + weight * vector.astype(np.float64)
        slack = 3e-7 * (np.abs(before) + np.abs(weight * vector)) + 1e-6 * abs(weight) * np.abs(vector).max()
        assert (np.abs(out - expected) <= slack).all()


@every
def test_encode_into_writes_the_same_payload(codec: Codec) -> None:
    x = layered()
    payload = codec.encode(x, seed=2, layout=SIZES)
    for offset in (0, 1, 4):
        buffer = bytearray(b"\x55" * (len(payload) + offset + 9))
        size = codec.encode_into(x, memoryview(buffer)[offset:], seed=2, layout=SIZES)
        assert buffer[offset : offset + size] == payload
        assert set(buffer[:offset] + buffer[offset + size :]) == {0x55}
    for bad in (bytearray(len(payload) - 1), payload):
        with pytest.raises(ValueError, match="out"):
            codec.encode_into(x, bad, seed=2, layout=SIZES)


@every
def test_input_is_untouched_and_may_be_read_only(codec: Codec) -> None:
    x = layered()
    x.setflags(write=False)
    copy = x.copy()
    codec.encode(x, seed=1, layout=SIZES)
    np.testing.assert_array_equal(x, copy)


@every
def test_layout_strides_and_wide_floats_change_nothing(codec: Codec) -> None:
    x = layered()
    payload = codec.encode(x, seed=1, layout=SIZES)
    assert codec.encode(x, seed=1, layout=Layout.of_sizes(SIZES)) == payload
    assert codec.encode(x.astype(np.float64), seed=1, layout=SIZES) == payload
    assert codec.encode(np.repeat(x, 2)[::2], seed=1, layout=SIZES) == payload
    for buffer in (bytearray(payload), memoryview(payload), memoryview(b"x" + payload)[1:]):
        np.testing.assert_array_equal(decode(buffer), decode(payload))


@every
def test_same_seed_same_bytes_other_seed_other_bytes(codec: Codec) -> None:
    x = layered()
    one, again, other = (codec.encode(x, seed=s, layout=SIZES) for s in (5, 5, 6))
    assert one == again
    assert one != other
    if codec.unbiased and codec != Float32():
        assert (decode(one) != decode(other)).any()


@every
def test_non_finite_input_is_refused(codec: Codec) -> None:
    for position, bad in ((0, np.nan), (1, np.inf), (2047, -np.inf), (ELEMENTS - 1, np.nan)):
        x = layered()
        x[position] = bad
        with pytest.raises(NonFiniteError, match=rf"1 of {ELEMENTS} .* index {position}"):
            codec.encode(x, layout=SIZES)
    with pytest.raises(NonFiniteError):
        codec.encode(np.array([1e300, 1.0, 2.0]), layout=[3])


@every
def test_what_is_no_vector_is_refused(codec: Codec) -> None:
    with pytest.raises(ValueError, match="one-dimensional"):
        codec.encode(np.zeros((2, 3), np.float32), layout=[6])
    with pytest.raises(TypeError, match="floating"):
        codec.encode(np.arange(6), layout=[6])


@every
def test_rate_curve_has_one_finite_number_a_level_bit(codec: Codec) -> None:
    x = layered()
    curve = codec.rate_curve(x, SIZES)
    np.testing.assert_array_equal(x, layered())
    assert curve.shape == (16,)
    assert np.isfinite(curve).all()
    assert (curve > 0).all()
    if not isinstance(codec, QSGD):
        size = 8 * len(codec.encode(layered(), layout=SIZES))
        np.testing.assert_allclose(curve, size, rtol=0.05, atol=8 * 80)  # of 6,000 elements; large ones: test_sizes


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
