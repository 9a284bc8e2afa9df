"""`adagq bench codecs`: speed as ratios to memcpy, sizes against entropy, errors against the bound.

All times are CPU seconds of one process, the minimum over repeats, divided by the minimum for a memcpy of the same
vector measured in between, so that a noisy machine slows both. Output buffers are warm.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from rich.console import Console
from rich.table import Table

from adagq.benchmarks.rivals import missing, rivals_table
from adagq.codecs import QSGD, Codec, Float16, Float32, SignSGD, TernGrad, TopK, decode, decode_into
from adagq.core.errors import ConfigError
from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector

RESNET18 = 11_173_962  # parameters of ResNet-18 in its 32x32 form
LAYERS = tuple(int(n) for n in np.geomspace(64, 2_000_000, 24))  # sizes of the layered vector's tensors
# Measured elsewhere on the same kind of vectors: bits -> NMSE.
BOUND = {1: 0.333, 2: 0.0667, 3: 0.0159, 4: 0.0039}
EDEN = {1: 0.535, 2: 0.098, 3: 0.0228, 4: 0.0056}
DITHER_T3 = {1: 0.459, 2: 0.073, 3: 0.0165, 4: 0.0040}


def normal(size: int) -> FloatVector:
    return generator(1, "bench", "normal").standard_normal(size, np.float32)


def laplace(size: int) -> FloatVector:
    return generator(1, "bench", "laplace").laplace(size=size).astype(np.float32)


def student(size: int) -> FloatVector:
    """Student's t with three degrees of freedom: heavy tails, variance 3."""
    return generator(1, "bench", "t3").standard_t(3, size).astype(np.float32)


def layered(size: int) -> FloatVector:
    """Normal tensors whose scales differ by decades, as layers of a network do."""
    sizes = np.array(LAYERS) * size // sum(LAYERS)
    sizes[-1] += size - sizes.sum()
    scales = 10.0 ** generator(1, "bench", "scales").uniform(-4, 0, sizes.size)
    return (normal(size) * np.repeat(scales, sizes)).astype(np.float32)


def real_update(size: int) -> FloatVector:
    """What a width-16 ResNet-18 learns on digits in one local epoch (about 0.7 M elements at any `size`)."""
    from adagq.learners import LearningTask

    population = LearningTask(model="resnet18", width=16, clients=4).build()
    learner = population.learner(0)
    learner.load(*population.initial(1))
    before, _ = learner.dump()
    learner.train(1, 0.05, 1)
    return before - learner.dump()[0]


DISTRIBUTIONS: dict[str, Callable[[int], FloatVector]] = {
    "normal": normal,
    "Laplace": laplace,
    "t3": student,
    "layered": layered,
    "real update": real_update,
}


@dataclass(frozen=True)
class Timing:
    """CPU time in units of memcpy."""

    encode: float
    decode: float
    bits: float


def measure(codec: Codec, x: FloatVector, repeats: int, threads: int = 1) -> Timing:
    """Return the codec's times on `x`; wall time where threads > 1, since CPU time adds up over threads."""
    clock = time.process_time if threads == 1 else time.perf_counter
    copy, out = np.empty_like(x), np.zeros_like(x)
    buffer = bytearray(4 * x.size + 65536)
    payload = codec.encode(x, seed=1, threads=threads)

    def best(work: Callable[[], object]) -> Iterator[float]:
        while True:
            begin = clock()
            work()
            yield clock() - begin

    runs = [
        best(lambda: np.copyto(copy, x)),
        best(lambda: codec.encode_into(x, buffer, seed=1, threads=threads)),
        best(lambda: decode_into(payload, out, weight=0.05, threads=threads)),
    ]
    memcpy, encode, decode_ = (
        min(times) for times in zip(*([next(r) for r in runs] for _ in range(repeats)), strict=True)
    )
    return Timing(encode / memcpy, decode_ / memcpy, 8 * len(payload) / x.size)


def speed_rows() -> list[tuple[str, Codec, float, float]]:
    """Name, codec, and the most that encoding and decoding may take, in memcpys."""
    rows: list[tuple[str, Codec, float, float]] = [
        ("Float32", Float32(), 0, 0),
        ("Float16", Float16(), 2, 2),
        ("SignSGD", SignSGD(), 0, 0),
        ("TernGrad, entropy", TernGrad(), 12, 12),
        ("Top-k 10 %, coded", TopK(0.1), 15, 0),
        ("Top-k 10 %, plain", TopK(0.1, indices="plain"), 15, 0),
    ]
    rows += [(f"QSGD {2**b - 1}, fixed {b + 1} bits", QSGD(2**b - 1, packing="fixed"), 2.5, 2) for b in range(1, 17)]
    rows.append(("QSGD 255, fixed, dither", QSGD(255, rounding="dither", packing="fixed"), 2.5, 2))
    rows.append(("QSGD 255, fixed, buckets of 512", QSGD(255, 512, "max", packing="fixed"), 2.5, 2))
    level_counts = (1, 30, 300, 1300, 3000, 6000, 13000, 65535)
    for levels in level_counts:
        rows.append((f"QSGD {levels}, entropy", QSGD(levels), 12, 12))
        rows.append((f"QSGD {levels}, entropy, dither", QSGD(levels, rounding="dither"), 12, 12))
    return rows


def zero_order_entropy(levels: np.ndarray) -> float:
    """Bits per element of integers coded by their own frequencies."""
    counts = np.unique_counts(levels).counts.astype(float)
    return float(np.log2(counts.sum()) - (counts * np.log2(counts)).sum() / counts.sum())


def coded_levels(codec: QSGD, x: FloatVector, seed: int) -> np.ndarray:
    """Return the integers that a stochastically rounding codec sends for `x`."""
    scale = float(np.sqrt(np.square(x, dtype=np.float64).sum()))
    return np.rint(decode(codec.encode(x, seed)).astype(np.float64) * (codec.levels / scale)).astype(np.int64)


def at_bits(x: FloatVector, bits: float, variance: float = 0.0) -> tuple[float, float, int]:
    """Return (real bits, NMSE, levels) of the dithering codec with the most levels within `bits` per element."""
    low, high = 1, 65535
    while high - low > max(1, low // 512):
        middle = min(max(round(sqrt(low * high)), low + 1), high - 1)
        fits = 8 * len(QSGD(middle, rounding="dither").encode(x, seed=3)) <= bits * x.size
        low, high = (middle, high) if fits else (low, middle)
    payload = QSGD(low, rounding="dither").encode(x, seed=3)
    error = np.square(decode(payload) - x, dtype=np.float64).mean()
    return 8 * len(payload) / x.size, error / (variance or np.square(x, dtype=np.float64).mean()), low


def first_call_seconds() -> float:
    """Seconds from the start of a new process to its first decoded payload, kernels cached on disk."""
    code = "import numpy as np; from adagq.codecs import *; decode(QSGD(255).encode(np.ones(300000, np.float32)))"
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begin


def marked(value: float, limit: float) -> str:
    """Return the value, green or red as it keeps to the limit; 0 is no limit."""
    text = f"{value:.2f}"
    return text if not limit else f"[green]{text}[/]" if value <= limit else f"[red]{text}[/] > {limit:g}"


def run(elements: int = RESNET18, repeats: int = 9, rivals: bool = False) -> None:
    """Measure and print every table; with `rivals` that of other entropy coders first."""
    console = Console()
    x = normal(elements)
    if rivals:
        if absent := missing():
            raise ConfigError(f"--rivals: not installed: {', '.join(absent)}; pip install {' '.join(absent)}")
        console.print(rivals_table(x, repeats=3))
    table = Table(title=f"Speed, {elements:,} normal float32: times / memcpy of the vector, one thread, warm buffers")
    for heading in ("codec", "encode", "decode_into", "bits per parameter"):
        table.add_column(heading, justify="left" if heading == "codec" else "right")
    for name, codec, encode_limit, decode_limit in speed_rows():
        timing = measure(codec, x, repeats)
        table.add_row(
            name, marked(timing.encode, encode_limit), marked(timing.decode, decode_limit), f"{timing.bits:.4f}"
        )
    console.print(table)

    table = Table(title="Two threads, wall time / one-thread memcpy: one thread -> two")
    for heading in ("codec", "encode", "decode_into"):
        table.add_column(heading)
    for name, codec in (
        ("QSGD 255, fixed", QSGD(255, packing="fixed")),
        ("QSGD 3000, entropy", QSGD(3000, rounding="dither")),
    ):
        one, two = (measure(codec, x, repeats, threads) for threads in (1, 2))
        table.add_row(name, f"{one.encode:.2f} -> {two.encode:.2f}", f"{one.decode:.2f} -> {two.decode:.2f}")
    console.print(table)
    first_call_seconds()  # fills the cache
    console.print(f"First call in a new process, kernels cached: {marked(first_call_seconds(), 3.0)} s\n")

    sizes = Table(title="Size of entropy packing / zero-order entropy of the levels sent (1 M elements, whole payload)")
    rates = Table(title="rate_curve / real payload at levels 2^b - 1, smallest and largest over b = 1..16")
    level_counts = (1, 3, 15, 63, 255, 1023, 4095, 16383, 65535)
    sizes.add_column("vector")
    for levels in level_counts:
        sizes.add_column(str(levels), justify="right")
    for heading in ("vector", "smallest", "largest"):
        rates.add_column(heading)
    for name, draw in DISTRIBUTIONS.items():
        vector = draw(min(elements, 1_000_000))
        cells = []
        for levels in level_counts:
            codec = QSGD(levels)
            entropy = zero_order_entropy(coded_levels(codec, vector, 3))
            cells.append(f"{8 * len(codec.encode(vector, 3)) / vector.size / entropy:.3f}" if entropy else "-")
        sizes.add_row(name, *cells)
        curve = QSGD(rounding="dither").rate_curve(vector)
        real = [8 * len(replace(QSGD(rounding="dither"), levels=2**b - 1).encode(vector, 3)) for b in range(1, 17)]
        ratios = curve / np.array(real)
        rates.add_row(name, f"{ratios.min():.3f}", f"{ratios.max():.3f}")
    console.print(sizes)
    console.print(rates)

    table = Table(
        title="NMSE of the unbiased codec at equal real bits per parameter (rounding dither, entropy packing)"
    )
    for heading in ("vector", "1 bit", "2 bits", "3 bits", "4 bits"):
        table.add_column(heading)
    big = min(elements, 4_000_000)
    for name in DISTRIBUTIONS:
        vector = DISTRIBUTIONS[name](big)
        variance = 3.0 if name == "t3" else 0.0  # the true one: a heavy tail's sample energy is luck
        table.add_row(name, *(f"{at_bits(vector, bits, variance)[1]:.4g}" for bits in (1, 2, 3, 4)))
    for name, row in (("bound, normal", BOUND), ("EDEN, entropy-coded", EDEN), ("dither, t3", DITHER_T3)):
        table.add_row(f"[dim]{name}[/]", *(f"[dim]{row[bits]:g}[/]" for bits in (1, 2, 3, 4)))
    console.print(table)
