"""The recorded payloads: which codec on which vector. Vectors come from integer arithmetic, the same everywhere."""

from pathlib import Path

import numpy as np

from adagq.codecs import (
    QSGD,
    STC,
    Cocktail,
    Codec,
    Correlated,
    DeadZone,
    Eden,
    FedDQ,
    FedFQ,
    Float16,
    Float32,
    OneBit,
    PowerSGD,
    Projection,
    SignSGD,
    TernGrad,
    TopK,
    Wangni,
    Withheld,
)
from adagq.core.vectors import Layout, Tensor

FOLDER = Path(__file__).parent / "golden"
HASHES = FOLDER / "decoded.json"  # name -> SHA-256 of the decoded float32 numbers
SEED = 20_260_701

SIZES = {"short": [1, 0, 499], "falling": [1000, 2048, 2952], "long": [2**18], "far": [300_000], "huge": [5, 600]}
SIZES["matrices"] = [12 * 30, 7, 5 * 4 * 6]
SHAPES = {"matrices": [(12, 30), (7,), (5, 4, 6)]}  # of kinds whose tensors are more than a length


def vector(kind: str) -> np.ndarray:
    """Bell-shaped numbers: sums of 16-bit halves of a Weyl sequence's hash, exact in float32."""
    size = sum(SIZES[kind])
    index = np.arange(4 * size, dtype=np.uint64).reshape(size, 4)
    mixed = (index * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(0x5DEECE66D)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    x = ((mixed >> np.uint64(48)).astype(np.int64) - 2**15).sum(axis=1) / 2.0**15
    if kind == "falling":  # by two every 300 elements: from dense to rare
        x = x * 2.0 ** -(np.arange(size) // 300)
    if kind == "huge":
        x = x * 2.0**99
    if kind == "far":  # three entries, further apart than one gap can say
        x = np.where(np.isin(np.arange(size), (7, 150_000, 299_999)), x, 0.0)
    return x.astype(np.float32)


def layout(kind: str) -> Layout | list[int]:
    """The tensors' sizes, or their shapes where these are recorded."""
    if kind not in SHAPES:
        return SIZES[kind]
    return Layout(tuple(Tensor(f"t{k}", shape, "float32", False) for k, shape in enumerate(SHAPES[kind])))


CASES: dict[str, tuple[Codec, str]] = {
    "float32": (Float32(), "short"),
    "float16": (Float16(), "short"),
    "float16-scaled": (Float16(), "huge"),
    "signsgd-vector": (SignSGD(), "falling"),
    "signsgd-tensor": (SignSGD("tensor"), "falling"),
    "terngrad-fixed": (TernGrad("tensor", "fixed"), "falling"),
    "terngrad-entropy": (TernGrad(), "falling"),
    "topk-plain": (TopK(0.05, "float32", "plain"), "falling"),
    "topk-coded": (TopK(0.05, "float32", "coded"), "falling"),
    "topk-coded-half": (TopK(0.01, "float16", "coded"), "huge"),
    "topk-far": (TopK(1e-5, "float16", "coded"), "far"),
    "stc": (STC(0.05), "falling"),
    "stc-far": (STC(1e-5), "far"),
    "dead-zone": (DeadZone(0.05), "falling"),
    "dead-zone-far": (DeadZone(1e-5), "far"),
    "dead-zone-huge": (DeadZone(0.3), "huge"),
    "qsgd-fixed-stochastic-1": (QSGD(1, "vector", "max", "stochastic", "fixed"), "falling"),
    "qsgd-fixed-dither-9": (QSGD(200, "tensor", "l2", "dither", "fixed"), "falling"),
    "qsgd-fixed-stochastic-17": (QSGD(65535, 100, "max", "stochastic", "fixed"), "short"),
    "qsgd-fixed-huge": (QSGD(15, 64, "l2", "dither", "fixed"), "huge"),
    "qsgd-entropy-stochastic": (QSGD(3, "vector", "max", "stochastic", "entropy"), "falling"),
    "qsgd-entropy-dither": (QSGD(3, "tensor", "max", "dither", "entropy"), "falling"),
    "qsgd-entropy-dither-fine": (QSGD(40, "vector", "max", "dither", "entropy"), "falling"),
    "qsgd-entropy-raw-bits": (QSGD(65535, "tensor", "max", "stochastic", "entropy"), "falling"),
    "qsgd-entropy-raw-bits-dither": (QSGD(30000, 512, "max", "dither", "entropy"), "falling"),
    "qsgd-entropy-rare": (QSGD(1, "vector", "l2", "stochastic", "entropy"), "long"),
    "qsgd-entropy-sparse": (QSGD(16, "vector", "l2", "dither", "entropy"), "long"),
    "onebit": (OneBit("tensor"), "falling"),
    "eden-1": (Eden(1), "falling"),
    "eden-3": (Eden(3), "short"),
    "wangni": (Wangni(0.05), "falling"),
    "cocktail": (Cocktail(0.5, 0.2, 4), "falling"),
    "powersgd": (PowerSGD(2), "matrices"),
    "feddq": (FedDQ(0.01), "falling"),
    "powersgd-half": (PowerSGD(1, "float16"), "matrices"),
    "withheld": (Withheld(), "short"),
    "fedfq": (FedFQ(0.5), "falling"),
    "projection": (Projection(2), "matrices"),
    "projection-bytes": (Projection(1, "int8", 1), "matrices"),
    "correlated": (Correlated(0.1, 0.05), "falling"),
}


def encoded(name: str) -> bytes:
    codec, kind = CASES[name]
    return codec.encode(vector(kind), seed=SEED, layout=layout(kind))
