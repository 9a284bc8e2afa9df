"""Every codec configuration, the vectors they are tried on, and the error that each may make."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from adagq.codecs import QSGD, STC, Codec, Float16, Float32, SignSGD, TernGrad, TopK
from adagq.codecs.registry import entries

LEVELS = (1, 3, 16, 255, 4095, 65535)
GRANULARITIES = ("vector", "tensor", 500)
TINY = 2.0**-149  # float32's smallest step

EVERY: list[Codec] = [codec for entry in entries() if not (entry.tag or 0) >= 64 for codec in entry.examples]
BOUNDED = (Float32, Float16, QSGD, SignSGD, TernGrad, TopK)  # those with a bound on the error of every element
CODECS = [codec for codec in EVERY if isinstance(codec, BOUNDED)]
QSGDS = [codec for codec in CODECS if isinstance(codec, QSGD)]
TOPKS = [codec for codec in CODECS if isinstance(codec, TopK)]
TERNGRADS = [codec for codec in CODECS if isinstance(codec, TernGrad)]
SIGNSGDS = [codec for codec in CODECS if isinstance(codec, SignSGD)]


def name(codec: object) -> str:
    """A short id for pytest: the class and the values of its knobs."""
    if not isinstance(codec, Codec):
        return str(codec)
    knobs = [name(getattr(codec, knob)) for knob in codec.__dataclass_fields__]
    return "-".join([type(codec).__name__, *knobs])


def starts_of(granularity: str | int, elements: int, sizes: list[int]) -> NDArray[np.int64]:
    """Boundaries of the runs that share a scale, written again and plainly."""
    if granularity == "tensor":
        cuts = [0, *np.cumsum([s for s in sizes if s])]
    else:
        length = max(elements, 1) if granularity == "vector" else int(granularity)
        cuts = [*range(0, elements, length), elements]
    return np.array(cuts, np.int64)


def scales_of(codec: QSGD | SignSGD, x: NDArray[np.float64], sizes: list[int]) -> NDArray[np.float64]:
    """Every element's scale in float64: norm, largest or mean magnitude of its run."""
    out = np.zeros(x.size)
    starts = starts_of(codec.granularity, x.size, sizes)
    for lo, hi in pairwise(starts):
        piece = np.abs(x[lo:hi])
        if isinstance(codec, SignSGD):
            out[lo:hi] = piece.mean()
        else:
            out[lo:hi] = np.sqrt(np.sum(piece**2)) if codec.norm == "l2" else piece.max()
    return out


def bound_of(codec: Codec, x: NDArray[np.float32], sizes: list[int]) -> NDArray[np.float64]:
    """The largest error that `codec` may make at every element, float32 arithmetic included."""
    wide = x.astype(np.float64)
    if isinstance(codec, TernGrad):
        codec = codec.qsgd
    if isinstance(codec, QSGD):
        scales = scales_of(codec, wide, sizes)
        step = scales / codec.levels * (0.5 if codec.rounding == "dither" else 1.0)
        # a few units of float32's 24 bits; and where scale / levels is denormal, half a unit of that a level
        return step + 6e-7 * scales + codec.levels * TINY
    if isinstance(codec, SignSGD):
        scales = scales_of(codec, wide, sizes)
        return np.abs(np.abs(wide) - scales) + 1e-5 * scales + TINY
    half = np.abs(wide) * 2.0**-11 + max(2.0**-25, np.abs(wide).max(initial=0.0) * 2.0**-38)
    if np.abs(wide).max(initial=0.0) < 2.0**-6:
        half = np.abs(wide) * 2.0**-11 + np.abs(wide).max(initial=0.0) * 2.0**-37 + TINY
    if isinstance(codec, Float16):
        return half
    if isinstance(codec, TopK):
        kept = codec.kept(x.size)
        threshold = np.sort(np.abs(wide))[::-1][kept - 1] if kept else 0.0
        exact = half if codec.values == "float16" else np.zeros(x.size)
        return np.where(np.abs(wide) > threshold, exact, np.maximum(np.abs(wide), exact))
    if isinstance(codec, STC):
        kept = codec.kept(x.size)
        largest = np.sort(np.abs(wide))[::-1][:kept]
        mean, threshold = (largest.mean(), largest[-1]) if kept else (0.0, 0.0)
        far = np.abs(np.abs(wide) - mean) + 1e-6 * mean + TINY
        return np.where(np.abs(wide) > threshold, far, np.maximum(np.abs(wide), far))
    assert isinstance(codec, Float32)
    return np.zeros(x.size)


def million(kind: str, seed: int = 1) -> tuple[NDArray[np.float32], list[int]]:
    """About a million numbers, and the tensors they belong to."""
    rng = np.random.default_rng(seed)
    sizes = [1_728, 64, 36_864, 147_456, 256, 589_824, 130_000, 4_000, 1_000, 95_000]
    d = sum(sizes)
    if kind == "layered":
        scales = np.repeat(10.0 ** -np.array([0, 3, 1, 2, 0, 3, 1, 4, 2, 0]), sizes)
        return (rng.standard_normal(d) * scales).astype(np.float32), sizes
    draw = {
        "normal": rng.standard_normal,
        "laplace": lambda n: rng.laplace(size=n),
        "t3": lambda n: rng.standard_t(3, n),
    }
    return draw[kind](d).astype(np.float32), sizes


KINDS = ("normal", "laplace", "t3", "layered")
