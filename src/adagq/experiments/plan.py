"""What a round will cost before anything is trained: `adagq plan`.

    round    = max_i(download_i + epochs * compute_i + codec + upload_i) + server + exchange
    progress = round / (epochs * efficiency)            seconds per local epoch's worth of progress
    tax      = progress / max_i(compute_i)              1 is free links

Methods are rows of the table of methods; `predicted_bits` asks their codecs what they send. What is assumed beyond
that is a field of `PlanInput`; the simulator measures. Buffers, frame headers and probes are left out: they are below
one per cent.

The clients stand evenly between the two ends of the uplink range; compute times spread over
± `compute_spread` in an order that has nothing to do with the rates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adagq.experiments.plan_input import PlanInput
from adagq.experiments.predicted_bits import download_bits, is_compressed, upload_bits
from adagq.methods.table import Method, compared, method_of
from adagq.simulation.fleet.devices import DECODE_SECONDS_PER_ELEMENT, ENCODE_SECONDS_PER_ELEMENT

FloatArray = NDArray[np.float64]

UNCOMPRESSED = "uncompressed"  # what a row over free links is called when its links are not


@dataclass(frozen=True, slots=True)
class MethodPlan:
    """One method's round; the seconds are those of the client that finishes last."""

    method: str
    compressed: bool
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
    assumption: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """`saved[i][j]` at `uplink_mbps[i]` (the slowest client's) and `compute_seconds[j]`: a heat map."""

    uplink_mbps: tuple[float, ...]
    compute_seconds: tuple[float, ...]
    saved: tuple[tuple[float, ...], ...]


def plan(given: PlanInput, methods: Sequence[str] = compared()) -> Plan:
    """Predict every method's round; a row over free links stands for one-epoch rounds without compression.

    >>> paper = plan(PlanInput(params=11.17e6))
    >>> paper.best, paper.pays
    ('adagq-fit', True)
    >>> print(plan(PlanInput(params=1e4)).verdict)  # doctest: +ELLIPSIS
    Compression does not pay here: the best of it saves 0 % of the time, since the links take only ...
    """
    rates, compute = _clients(given)
    known = [method_of(name) for name in methods]
    rows = sorted((_row(given, method, rates, compute) for method in known), key=lambda row: row.progress_seconds)
    plain, best = (next(row for row in rows if row.compressed is way) for way in (False, True))
    saved = 1.0 - best.progress_seconds / plain.progress_seconds
    pays = saved >= given.worthwhile
    winner = best.method if pays else plain.method
    return Plan(tuple(rows), winner, saved, pays, _verdict(plain, best, saved, pays), _assumption(given))


def sweep(given: PlanInput, uplink_mbps: Sequence[float], compute_seconds: Sequence[float]) -> Sweep:
    """Return the share of time saved over a grid of the slowest uplink and the compute time.

    The fleet keeps its ratio of fastest to slowest uplink, and its downlink.

    >>> grid = sweep(PlanInput(params=11.17e6), uplink_mbps=(1.0, 1000.0), compute_seconds=(15.5, 155.0))
    >>> [[round(share, 2) for share in row] for row in grid.saved]
    [[0.68, 0.2], [0.09, 0.03]]
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


def _clients(given: PlanInput) -> tuple[FloatArray, FloatArray]:
    """Return each client's uplink in bit/s and seconds per local epoch."""
    rates = 1e6 * np.linspace(*given.uplink_mbps, given.clients)
    golden = (math.sqrt(5.0) - 1.0) / 2.0  # its multiples fill [0, 1) evenly in an order unlike the rates'
    offsets = 2.0 * (np.arange(1.0, given.clients + 1) * golden % 1.0) - 1.0
    compute: FloatArray = given.compute_seconds * (1.0 + given.compute_spread * offsets)
    return rates, compute


def _row(given: PlanInput, method: Method, rates: FloatArray, compute: FloatArray) -> MethodPlan:
    up, down, epochs = upload_bits(method, given, rates, compute), download_bits(method, given), method.epochs
    compressed = is_compressed(method)
    coded = ENCODE_SECONDS_PER_ELEMENT + DECODE_SECONDS_PER_ELEMENT if compressed else 0.0
    working = epochs * compute + coded * given.params
    uploads = given.params * up / rates
    download = given.params * down / (1e6 * given.downlink_mbps)
    last = int(np.argmax(working + uploads))
    round_seconds = float(download + working[last] + uploads[last] + given.server_seconds + given.exchange_seconds)
    progress = round_seconds / (epochs * given.five_epoch_efficiency if epochs > 1 else 1.0)
    return MethodPlan(
        method=UNCOMPRESSED if method.free_links else method.name,
        compressed=compressed,
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


def _assumption(given: PlanInput) -> str:
    return (
        f"Assumed: five local epochs bring as much as {5 * given.five_epoch_efficiency:.1f} rounds of one epoch. "
        "Measured: 4.6 on digits, 2.5 on Fashion-MNIST; in the paper 3.4. The less, the more compression saves."
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
