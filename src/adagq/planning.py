"""What a round will cost before anything is trained: `adagq plan`.

    round    = max_i(download_i + epochs * compute_i + codec + upload_i) + server
    progress = round / (epochs * efficiency)            seconds per local epoch's worth of progress
    tax      = progress / max_i(compute_i)              1 is free links

Sizes are assumptions here, not measurements, and all of them are fields of `PlanInput` or rows of `BITS`; the
simulator measures. Buffers, frame headers and probes are left out: they are below one per cent.

The clients stand evenly between the two ends of the uplink range; compute times spread over
± `compute_spread` in an order that has nothing to do with the rates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adagq.control import allocate
from adagq.errors import ConfigError
from adagq.fleet.devices import DECODE_SECONDS_PER_ELEMENT, ENCODE_SECONDS_PER_ELEMENT

FloatArray = NDArray[np.float64]

FIT_DOWNLINK_BITS = 2.5
# (bits per parameter up, down, local epochs) where they do not depend on the client.
BITS: dict[str, tuple[float, float, int]] = {
    "uncompressed": (32.0, 32.0, 1),
    "fedavg": (32.0, 32.0, 5),
    "fedavg-fp16": (16.0, 16.0, 5),
    "qsgd": (9.0, 32.0, 1),  # 8-bit levels and a sign
    "topk": (6.4, 32.0, 1),  # 10 % of the entries, 64 bits for value and index
    "fedpaq": (9.0, 32.0, 5),
}
UNCOMPRESSED = ("uncompressed", "fedavg", "fedavg-fp16")


@dataclass(frozen=True, slots=True)
class PlanInput:
    """The fleet, the model and what is assumed of the methods."""

    params: float
    uplink_mbps: tuple[float, float] = (5.0, 20.0)
    downlink_mbps: float = 70.0
    clients: int = 20
    compute_seconds: float = 15.5  # one local epoch
    compute_spread: float = 0.1
    server_seconds: float = 0.0
    # Five local epochs on unlike data bring less than five rounds: in the paper's Table I FedAvg takes 66
    # epochs where one-epoch rounds (QSGD) take 44.5; the ratio is 0.67 to 0.69 at every sigma_d.
    five_epoch_efficiency: float = 0.67
    adagq_levels: float = 255.0  # its mean levels; its rule moves them, its cost moves little
    fit_slack_seconds: float = 0.5  # adagq-fit: how much longer than the slowest computer a round may take,
    fit_min_bits: float = 0.15  # but never less than what this many bits per parameter take,
    fit_max_bits: float = 4.0  # and nobody sends more than this
    worthwhile: float = 0.05  # below this share of time saved, compression does not pay

    def __post_init__(self) -> None:
        for key in ("params", "downlink_mbps", "clients", "compute_seconds", "five_epoch_efficiency"):
            _require(getattr(self, key) > 0, key, getattr(self, key), "> 0")
        low, high = self.uplink_mbps
        _require(0 < low <= high, "uplink", f"{low:g},{high:g}", "low,high with 0 < low <= high")
        _require(0 <= self.compute_spread < 1, "compute_spread", self.compute_spread, ">= 0 and < 1")
        _require(self.server_seconds >= 0, "server_seconds", self.server_seconds, ">= 0")


@dataclass(frozen=True, slots=True)
class MethodPlan:
    """One method's round; the seconds are those of the client that finishes last."""

    method: str
    local_epochs: int
    upload_bits: float  # per parameter, mean over clients
    download_bits: float
    compute_seconds: float
    upload_seconds: float
    download_seconds: float
    round_seconds: float
    progress_seconds: float  # per local epoch's worth of progress
    tax: float


@dataclass(frozen=True, slots=True)
class Plan:
    """All methods, fastest progress first, and what follows from it in words."""

    methods: tuple[MethodPlan, ...]
    best: str
    saved: float  # share of the best uncompressed way's time that the best compressed one saves; < 0: costs
    pays: bool
    verdict: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """`saved[i][j]` at `uplink_mbps[i]` (the slowest client's) and `compute_seconds[j]`: a heat map."""

    uplink_mbps: tuple[float, ...]
    compute_seconds: tuple[float, ...]
    saved: tuple[tuple[float, ...], ...]


def plan(given: PlanInput) -> Plan:
    """Predict every method's round.

    >>> paper = plan(PlanInput(params=11.17e6))
    >>> paper.best, paper.pays
    ('adagq-fit', True)
    >>> print(plan(PlanInput(params=1e4)).verdict)  # doctest: +ELLIPSIS
    Compression does not pay here: the best of it saves 0 % of the time, since the links take only ...
    """
    rates, compute = _clients(given)
    rows = [
        _row(given, name, rates, compute, np.full(rates.size, up), down, epochs)
        for name, (up, down, epochs) in BITS.items()
    ]
    rows.append(_row(given, "adagq", rates, compute, _adagq_bits(given, rates, compute), 32.0, 1))
    rows.append(_row(given, "adagq-fit", rates, compute, _fit_bits(given, rates, compute), FIT_DOWNLINK_BITS, 1))
    rows.sort(key=lambda row: row.progress_seconds)
    plain = min((row for row in rows if row.method in UNCOMPRESSED), key=lambda row: row.progress_seconds)
    best = min((row for row in rows if row.method not in UNCOMPRESSED), key=lambda row: row.progress_seconds)
    saved = 1.0 - best.progress_seconds / plain.progress_seconds
    pays = saved >= given.worthwhile
    return Plan(tuple(rows), best.method if pays else plain.method, saved, pays, _verdict(plain, best, saved, pays))


def sweep(given: PlanInput, uplink_mbps: Sequence[float], compute_seconds: Sequence[float]) -> Sweep:
    """Return the share of time saved over a grid of the slowest uplink and the compute time.

    The fleet keeps its ratio of fastest to slowest uplink, and its downlink.

    >>> grid = sweep(PlanInput(params=11.17e6), uplink_mbps=(1.0, 1000.0), compute_seconds=(15.5, 155.0))
    >>> [[round(share, 2) for share in row] for row in grid.saved]
    [[0.76, 0.42], [0.21, 0.03]]
    """
    ratio = given.uplink_mbps[1] / given.uplink_mbps[0]
    saved = tuple(
        tuple(
            plan(replace(given, uplink_mbps=(slowest, slowest * ratio), compute_seconds=seconds)).saved
            for seconds in compute_seconds
        )
        for slowest in uplink_mbps
    )
    return Sweep(tuple(uplink_mbps), tuple(compute_seconds), saved)


def parse_count(text: str) -> float:
    """Return a number with an optional k, M or G.

    >>> parse_count("11.2M")
    11200000.0
    """
    factor = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}.get(text.strip()[-1:].lower())
    try:
        value = float(text if factor is None else text.strip()[:-1]) * (factor or 1.0)
    except ValueError:
        value = math.nan
    _require(0 < value < math.inf, "params", text, "a number > 0, such as 11.2M")
    return value


def parse_span(text: str, key: str = "uplink") -> tuple[float, float]:
    """Return `low,high`, or one number twice.

    >>> parse_span("5,20"), parse_span("8")
    ((5.0, 20.0), (8.0, 8.0))
    """
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    _require(len(numbers) in (1, 2) and 0 < numbers[0] <= numbers[-1] < math.inf, key, text, "low,high > 0")
    return numbers[0], numbers[-1]


def _require(holds: bool, key: str, value: object, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"{key} = {value!r}: must be {allowed}")


def _clients(given: PlanInput) -> tuple[FloatArray, FloatArray]:
    """Return each client's uplink in bit/s and seconds per local epoch."""
    rates = 1e6 * np.linspace(*given.uplink_mbps, given.clients)
    golden = (math.sqrt(5.0) - 1.0) / 2.0  # its multiples fill [0, 1) evenly in an order unlike the rates'
    offsets = 2.0 * (np.arange(1.0, given.clients + 1) * golden % 1.0) - 1.0
    compute: FloatArray = given.compute_seconds * (1.0 + given.compute_spread * offsets)
    return rates, compute


def _adagq_bits(given: PlanInput, rates: FloatArray, compute: FloatArray) -> FloatArray:
    """Equal finishing at the given mean levels, fixed packing: b magnitude bits and a sign."""
    packed = np.tile(given.params * np.arange(2.0, 18.0), (given.clients, 1))
    return 1.0 + allocate(compute, 1.0 / rates, packed, given.adagq_levels).astype(np.float64)


def _fit_bits(given: PlanInput, rates: FloatArray, compute: FloatArray) -> FloatArray:
    """Everyone fills the time until `tau` with entropy-coded bits."""
    least = given.fit_min_bits * given.params / rates
    tau = np.max(compute + np.maximum(least, given.fit_slack_seconds))
    bits: FloatArray = np.clip((tau - compute) * rates / given.params, given.fit_min_bits, given.fit_max_bits)
    return bits


def _row(
    given: PlanInput,
    name: str,
    rates: FloatArray,
    compute: FloatArray,
    up: FloatArray,
    down: float,
    epochs: int,
) -> MethodPlan:
    coded = 0.0 if name in UNCOMPRESSED else ENCODE_SECONDS_PER_ELEMENT + DECODE_SECONDS_PER_ELEMENT
    working = epochs * compute + coded * given.params
    uploads = given.params * up / rates
    download = given.params * down / (1e6 * given.downlink_mbps)
    last = int(np.argmax(working + uploads))
    round_seconds = float(download + working[last] + uploads[last] + given.server_seconds)
    progress = round_seconds / (epochs * given.five_epoch_efficiency if epochs > 1 else 1.0)
    return MethodPlan(
        method=name,
        local_epochs=epochs,
        upload_bits=float(np.mean(up)),
        download_bits=down,
        compute_seconds=float(working[last]),
        upload_seconds=float(uploads[last]),
        download_seconds=download,
        round_seconds=round_seconds,
        progress_seconds=progress,
        tax=progress / float(np.max(compute)),
    )


def _verdict(plain: MethodPlan, best: MethodPlan, saved: float, pays: bool) -> str:
    if pays:
        return (
            f"Compression pays: {best.method} needs {best.progress_seconds:.1f} s per epoch of progress, "
            f"{plain.method} {plain.progress_seconds:.1f} s: {100 * saved:.0f} % of the time saved."
        )
    links = plain.upload_seconds + plain.download_seconds
    return (
        f"Compression does not pay here: the best of it saves {100 * max(saved, 0.0):.0f} % of the time, "
        f"since the links take only {links:.1f} s of a round of {plain.round_seconds:.1f} s."
    )
