"""The contract of `adagq.core.codec` as checks: every codec passes all of them, those of other packages too.

@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check):
    check(MyCodec())
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from adagq.codecs import Codec, Float32, NonFiniteError, codec_from_plain, codec_to_plain, decode, decode_into, send
from adagq.codecs.registry import entry_of
from adagq.codecs.wire import HEADER, default_max_bytes, parse
from adagq.core.codec import Leveled, Stateful, levels_of
from adagq.core.vectors import Layout, Tensor, squared_norm

SIZES = [1, 2300, 0, 40, 3000, 659]
SHAPES = [(1,), (50, 46), (0,), (40,), (5, 20, 30), (659,)]
ELEMENTS = sum(SIZES)


def layout_of(shapes: list[tuple[int, ...]]) -> Layout:
    return Layout(tuple(Tensor(f"t{k}", shape, "float32", False) for k, shape in enumerate(shapes)))


LAYOUT = layout_of(SHAPES)

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


def layered(seed: int = 1, sizes: list[int] = SIZES) -> np.ndarray:
    """Tensors whose scales differ by decades, tails heavier than normal."""
    rng = np.random.default_rng(seed)
    pieces = [rng.standard_t(3, size) * 10.0 ** -(k % 4) for k, size in enumerate(sizes)]
    return np.concatenate(pieces).astype(np.float32)


def sizes_of(elements: int) -> list[int]:
    return [elements // 3, 0, elements - elements // 3]


def check_is_a_frozen_codec(codec: Codec) -> None:
    assert isinstance(codec, Codec)
    assert codec == type(codec)(**{k: getattr(codec, k) for k in codec.__dataclass_fields__})
    assert type(codec).__dataclass_params__.frozen
    assert hash(codec) == hash(dataclasses.replace(codec))


def check_is_registered_and_plain_data(codec: Codec) -> None:
    import json

    assert codec in entry_of(codec).examples or type(codec) is entry_of(codec).codec
    plain = json.loads(json.dumps(codec_to_plain(codec)))
    assert plain["kind"] == entry_of(codec).kind
    assert codec_from_plain(plain) == codec


def check_round_trip(codec: Codec) -> None:
    for seed in (0, 2**64 - 1, -1, 2**70):  # seeds are taken modulo 2^64, on both sides
        payload = codec.encode(layered(), seed=seed, layout=LAYOUT)
        assert isinstance(payload, bytes)
        decoded = decode(payload)
        assert decoded.dtype == np.float32
        assert decoded.shape == (ELEMENTS,)
        assert np.isfinite(decoded).all()


def check_odd_vectors(codec: Codec) -> None:
    for kind, numbers in ODD_VECTORS.items():
        x = np.array(numbers, np.float32)
        payload = codec.encode(x, seed=3, layout=sizes_of(x.size))
        assert len(payload) <= codec.max_bytes(x.size, sizes_of(x.size)) <= codec.max_bytes(x.size), kind
        decoded = decode(payload)
        assert decoded.shape == x.shape, kind
        assert np.isfinite(decoded).all(), kind
        if not x.any():
            assert not decoded.any(), kind


def check_decode_into_adds_weighted(codec: Codec) -> None:
    payload = codec.encode(layered(), seed=4, layout=LAYOUT)
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


def check_encode_into_writes_the_same_payload(codec: Codec) -> None:
    x = layered()
    payload = codec.encode(x, seed=2, layout=LAYOUT)
    for offset in (0, 1, 4):
        buffer = bytearray(b"\x55" * (len(payload) + offset + 9))
        size = codec.encode_into(x, memoryview(buffer)[offset:], seed=2, layout=LAYOUT)
        assert buffer[offset : offset + size] == payload
        assert set(buffer[:offset] + buffer[offset + size :]) == {0x55}
    for bad in (bytearray(len(payload) - 1), payload):
        with pytest.raises(ValueError, match="out"):
            codec.encode_into(x, bad, seed=2, layout=LAYOUT)


def check_input_is_untouched_and_may_be_read_only(codec: Codec) -> None:
    x = layered()
    x.setflags(write=False)
    copy = x.copy()
    codec.encode(x, seed=1, layout=LAYOUT)
    np.testing.assert_array_equal(x, copy)


def check_strides_wide_floats_and_threads_change_nothing(codec: Codec) -> None:
    x = layered()
    payload = codec.encode(x, seed=1, layout=LAYOUT)
    assert codec.encode(x.astype(np.float64), seed=1, layout=LAYOUT) == payload
    assert codec.encode(np.repeat(x, 2)[::2], seed=1, layout=LAYOUT) == payload
    assert codec.encode(x, seed=1, layout=LAYOUT, threads=2) == payload
    for buffer in (bytearray(payload), memoryview(payload), memoryview(b"x" + payload)[1:]):
        np.testing.assert_array_equal(decode(buffer), decode(payload))


def check_same_seed_same_bytes(codec: Codec) -> None:
    x = layered()
    one, again, other = (codec.encode(x, seed=s, layout=LAYOUT) for s in (5, 5, 6))
    assert one == again
    assert parse(one).seed == 5
    if codec.unbiased and codec != Float32():  # the header differs in any case: compare what was drawn
        assert (decode(one) != decode(other)).any()


def check_non_finite_input_is_refused(codec: Codec) -> None:
    for position, bad in ((0, np.nan), (1, np.inf), (2047, -np.inf), (ELEMENTS - 1, np.nan)):
        x = layered()
        x[position] = bad
        with pytest.raises(NonFiniteError, match=rf"1 of {ELEMENTS} .* index {position}"):
            codec.encode(x, layout=LAYOUT)
    with pytest.raises(NonFiniteError):
        codec.encode(np.array([1e300, 1.0, 2.0]), layout=[3])


def check_what_is_no_vector_is_refused(codec: Codec) -> None:
    with pytest.raises(ValueError, match="one-dimensional"):
        codec.encode(np.zeros((2, 3), np.float32), layout=[6])
    with pytest.raises(TypeError, match="floating"):
        codec.encode(np.arange(6), layout=[6])


def check_rate_curve(codec: Codec) -> None:
    x = layered()
    curve = codec.rate_curve(x, LAYOUT)
    np.testing.assert_array_equal(x, layered())
    assert curve.shape == (16,)
    assert np.isfinite(curve).all()
    assert (curve > 0).all()
    if not levels_of(codec):
        size = 8 * len(codec.encode(layered(), layout=LAYOUT))
        np.testing.assert_allclose(curve, size, rtol=0.05, atol=8 * 80)  # of 6,000 elements; large ones: test_sizes


def check_max_bytes_holds(codec: Codec) -> None:
    """On numbers without pattern, at the finest levels too, and within what `decode` reads without a limit."""
    noise = np.random.default_rng(3).integers(0, 2**32, ELEMENTS, np.uint64).astype(np.uint32).view(np.float32)
    for x in (layered(), np.where(np.abs(noise) < 1e15, noise, np.float32(1.0))):
        for one in (codec, codec.with_levels(65535)) if isinstance(codec, Leveled) and levels_of(codec) else (codec,):
            payload = one.encode(x, seed=1, layout=LAYOUT)
            assert len(payload) <= codec.max_bytes(ELEMENTS, LAYOUT) <= codec.max_bytes(ELEMENTS)
            decode(payload, max_bytes=codec.max_bytes(ELEMENTS, LAYOUT))
    for elements in (0, 1, 40, 10**6, 2**31):
        assert codec.max_bytes(elements) <= default_max_bytes(elements)


def check_mismatch(codec: Codec) -> None:
    for elements in (0, 1, ELEMENTS):
        x = layered()[:elements]
        payload = codec.encode(x, seed=1, layout=[elements])
        assert codec.mismatch(payload) == codec.mismatch(payload[: HEADER.size]) == ""
    assert "tag" in codec.mismatch(payload[:4] + b"\xfe" + payload[5:])
    for garbage in (b"", payload[:20], bytes(100), memoryview(b"AGQ\x02" + bytes(60))):
        assert codec.mismatch(garbage)
    if isinstance(codec, Leveled) and (levels := levels_of(codec)):
        other = codec.with_levels(levels + 1 if levels < 65535 else 7)
        assert f"levels = {levels}, asked for were {levels_of(other)}" in other.mismatch(payload)
        assert other.mismatch(payload, fitted=True) == ""


def check_send(codec: Codec) -> None:
    """What is received is what the payload decodes to; the state is all that goes from one call to the next."""
    x = layered()
    first = send(codec, x, seed=1, layout=LAYOUT)
    np.testing.assert_array_equal(first.received, decode(first.payload))
    np.testing.assert_array_equal(first.vector, x)
    assert first.energy == squared_norm(x)
    assert first.error_energy == squared_norm(first.received - x)
    assert codec.mismatch(first.payload) == first.codec.mismatch(first.payload) == ""
    before = {name: array.copy() for name, array in first.state.items()}
    second, again = (send(codec, layered(2), first.state, seed=2, layout=LAYOUT) for _ in range(2))
    assert second.payload == again.payload
    assert second.state.keys() == again.state.keys()
    for name, array in first.state.items():
        np.testing.assert_array_equal(array, before[name])
        np.testing.assert_array_equal(second.state.get(name), again.state.get(name))
    if not isinstance(codec, Stateful):
        assert first.state == {}
        np.testing.assert_array_equal(second.vector, layered(2))


CHECKS: tuple[Callable[[Codec], None], ...] = tuple(
    value for name, value in sorted(globals().items()) if name.startswith("check_")
)
