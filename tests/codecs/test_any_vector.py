"""Any vector, any split into tensors, any knobs: the round trip keeps its bound and its promises."""

import numpy as np
from codec_cases import LEVELS, TINY, bound_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from adagq.codecs import QSGD, Codec, Float16, Float32, NonFiniteError, SignSGD, TernGrad, TopK, decode, decode_into

LARGEST = float(np.finfo(np.float32).max)

granularities = st.one_of(st.sampled_from(["vector", "tensor"]), st.integers(1, 6000))
packings = st.sampled_from(["fixed", "entropy"])
codecs = st.one_of(
    st.builds(
        QSGD,
        st.one_of(st.sampled_from(LEVELS), st.integers(1, 65535)),
        granularities,
        st.sampled_from(["l2", "max"]),
        st.sampled_from(["stochastic", "dither"]),
        packings,
    ),
    st.builds(TernGrad, granularities, packings),
    st.builds(SignSGD, granularities),
    st.builds(
        TopK,
        st.floats(0.0, 1.0, exclude_min=True),
        st.sampled_from(["float32", "float16"]),
        st.sampled_from(["plain", "coded"]),
    ),
    st.sampled_from([Float32(), Float16()]),
)


@st.composite
def vectors(draw: st.DrawFn) -> np.ndarray:
    """Either numbers one by one, or thousands by seed with magnitudes all over float32."""
    if draw(st.booleans()):
        return draw(
            arrays(np.float32, st.integers(0, 60), elements=st.floats(width=32, allow_nan=False, allow_infinity=False))
        )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size, low, high = draw(st.integers(0, 5000)), draw(st.integers(-45, 30)), draw(st.integers(-45, 30))
    kept = draw(st.sampled_from([0.01, 0.5, 1.0]))
    exponents = np.linspace(low, high, size) if draw(st.booleans()) else np.full(size, float(low))
    x = rng.standard_normal(size) * 10.0**exponents * (rng.random(size) < kept)
    return x.astype(np.float32)


@st.composite
def splits(draw: st.DrawFn) -> tuple[np.ndarray, list[int]]:
    x = draw(vectors())
    cuts = sorted(draw(st.lists(st.integers(0, x.size), max_size=8)))
    return x, np.diff([0, *cuts, x.size]).tolist()


def too_large(codec: Codec, x: np.ndarray) -> bool:
    """Whether a norm may pass what float32 and the codec's own head room can say."""
    if isinstance(codec, QSGD | TernGrad | SignSGD):
        return bool(np.linalg.norm(x.astype(np.float64)) > 1.9e38)
    return "16" in repr(codec) and bool(np.abs(x).max() > 3.4e38)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(codecs, splits(), st.integers(0, 2**64 - 1))
def test_any_vector(codec: Codec, split: tuple[np.ndarray, list[int]], seed: int) -> None:
    x, sizes = split
    before = x.copy()
    try:
        payload = codec.encode(x, seed=seed, layout=sizes)
    except NonFiniteError:
        assert too_large(codec, x)
        return
    np.testing.assert_array_equal(x, before)
    assert codec.encode(x, seed=seed, layout=sizes, threads=2) == payload
    decoded = decode(payload, max_elements=x.size)
    assert decoded.shape == x.shape
    assert np.isfinite(decoded).all()
    error = np.abs(decoded.astype(np.float64) - x)
    assert (error <= bound_of(codec, x, sizes)).all()
    out = np.zeros(x.size, np.float32)
    decode_into(payload, out, 0.5)
    largest = np.abs(decoded).max(initial=0.0)
    # a step below float32's smallest normal number is rounded, and so is its half
    slack = 1e-6 * largest + getattr(codec, "levels", 1) * TINY * 2
    assert (np.abs(out - 0.5 * decoded.astype(np.float64)) <= slack).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(vectors(), st.integers(1, 65535), st.sampled_from(["stochastic", "dither"]), st.integers(1, 3000))
def test_entropy_packing_is_never_64_bytes_larger(x: np.ndarray, levels: int, rounding: str, bucket: int) -> None:
    if too_large(QSGD(), x):
        return
    entropy, fixed = (len(QSGD(levels, bucket, "max", rounding, p).encode(x)) for p in ("entropy", "fixed"))
    assert entropy <= fixed + 64
