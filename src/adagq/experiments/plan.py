"""What a round will cost before anything is trained: `adagq plan`.

    trip_i   = download_i + epochs * compute_i + codec + upload_i
    round    = max_i(trip_i) + server + exchange        with a barrier
    round    = n / sum_i(1 / trip_i) + n / k * server   without one: until n updates are in, a step after every k
    progress = round / (epochs * efficiency)            seconds per local epoch's worth of progress
    tax      = progress / max_i(compute_i)              1 is free links

Methods are rows of the table of methods; `predicted_bits` asks their codecs what they send. What is assumed beyond
that is a field of `PlanInput`; the simulator measures. Buffers, frame headers and probes are left out: they are below
one per cent. Without a barrier every client goes its own pace, an update counts whatever its staleness, and a client
that may fall only so many versions behind (`lag`) is waited for.

The clients are those of a fleet file. Without one they stand evenly between the two ends of the uplink range; compute
times spread over ± `compute_spread` in an order that has nothing to do with the rates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from adagq.experiments.plan_input import PlanInput
from adagq.experiments.predicted_bits import download_bits, is_compressed, upload_bits
from adagq.methods.table import Method, compared, method_of
from adagq.rounds import Buffered
from adagq.rounds.loops import loop_of
from adagq.simulation.fleet.devices import DECODE_SECONDS_PER_ELEMENT, ENCODE_SECONDS_PER_ELEMENT
from adagq.simulation.fleet.sanity import TOO_LONG_SECONDS

FloatArray = NDArray[np.float64]

UNCOMPRESSED = "uncompressed"  # what a row over free links is called when its links are not


@dataclass(frozen=True, slots=True)
class MethodPlan:
    """One method's round; the seconds are those of the client that finishes last, means without a barrier."""

    method: str
    compressed: bool
    local_epochs: float
    upload_bits: float  # per parameter, mean over clients
    download_bits: float
    compute_seconds: float
    upload_seconds: float
    download_seconds: float
    round_seconds: float
    progress_seconds: float  # per local epoch's worth of progress
    tax: float
    last: str = ""  # who finishes last, where clients have names


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
    clients = clients_of(given)
    known = [method_of(name) for name in methods]
    rows = sorted((round_of(given, method, clients) for method in known), key=lambda row: row.progress_seconds)
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
    saved = tuple(
        tuple(plan(_at(given, slowest, seconds)).saved for seconds in compute_seconds) for slowest in uplink_mbps
    )
    return Sweep(tuple(uplink_mbps), tuple(compute_seconds), saved)


def ends(given: PlanInput) -> tuple[float, float]:
    """Return the slowest uplink (Mbit/s) and the mean seconds of a local epoch: where a sweep begins."""
    if not given.members:
        return given.uplink_mbps[0], given.compute_seconds
    return min(one.uplink_mbps for one in given.members), fmean(one.epoch_seconds for one in given.members)


def _at(given: PlanInput, slowest: float, seconds: float) -> PlanInput:
    """Return the same fleet with another slowest uplink and another compute time."""
    uplink, compute = slowest / ends(given)[0], seconds / ends(given)[1]
    members = tuple(
        replace(one, uplink_mbps=uplink * one.uplink_mbps, epoch_seconds=compute * one.epoch_seconds)
        for one in given.members
    )
    low, high = given.uplink_mbps
    return replace(given, members=members, uplink_mbps=(uplink * low, uplink * high), compute_seconds=seconds)


@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """All clients, an array each: bit/s, seconds per local epoch, seconds a message takes on top."""

    uplink: FloatArray
    downlink: FloatArray
    compute: FloatArray
    latency: FloatArray
    names: tuple[str, ...]


def clients_of(given: PlanInput) -> Clients:
    """Return the clients that the input describes."""
    if given.members:
        every = given.members
        return Clients(
            uplink=1e6 * np.array([one.uplink_mbps for one in every]),
            downlink=1e6 * np.array([one.downlink_mbps for one in every]),
            compute=np.array([one.epoch_seconds for one in every]),
            latency=np.array([one.latency_seconds for one in every]),
            names=tuple(one.name for one in every),
        )
    uplink = 1e6 * np.linspace(*given.uplink_mbps, given.clients)
    golden = (math.sqrt(5.0) - 1.0) / 2.0  # its multiples fill [0, 1) evenly in an order unlike the rates'
    offsets = 2.0 * (np.arange(1.0, given.clients + 1) * golden % 1.0) - 1.0
    compute: FloatArray = given.compute_seconds * (1.0 + given.compute_spread * offsets)
    downlink = np.full(given.clients, 1e6 * given.downlink_mbps)
    return Clients(uplink, downlink, compute, np.zeros(given.clients), ("",) * given.clients)


def round_of(given: PlanInput, method: Method, clients: Clients) -> MethodPlan:
    """Predict a method's round with these clients."""
    up, down = upload_bits(method, given, clients.uplink, clients.compute), download_bits(method, given)
    epochs, compressed = method.epochs, is_compressed(method)
    coded = ENCODE_SECONDS_PER_ELEMENT + DECODE_SECONDS_PER_ELEMENT if compressed else 0.0
    working = epochs * clients.compute + coded * given.params
    uploads = given.params * up / clients.uplink + clients.latency
    downloads = given.params * down / clients.downlink + clients.latency
    trips = downloads + working + uploads
    last = int(np.argmax(trips))
    fixed = given.server_seconds + given.exchange_seconds
    loop = loop_of(method)
    if isinstance(loop, Buffered):
        weights = (1.0 / trips) / np.sum(1.0 / trips)  # a client's share of the updates
        round_seconds = _without_barrier(loop, trips) + fixed * loop.steps_per_round(trips.size)
    else:
        weights = (np.arange(trips.size) == last).astype(np.float64)
        round_seconds = float(trips[last]) + fixed
    progress = round_seconds / (epochs * given.five_epoch_efficiency if epochs > 1 else 1.0)
    return MethodPlan(
        method=UNCOMPRESSED if method.free_links else method.name,
        compressed=compressed,
        local_epochs=epochs,
        upload_bits=float(np.mean(up)),
        download_bits=down,
        compute_seconds=float(np.sum(weights * working)),
        upload_seconds=float(np.sum(weights * uploads)),
        download_seconds=float(np.sum(weights * downloads)),
        round_seconds=round_seconds,
        progress_seconds=progress,
        tax=progress / float(np.max(clients.compute)),
        last=clients.names[last],
    )


def _without_barrier(loop: Buffered, trips: FloatArray) -> float:
    """Return the seconds until as many updates are in as there are clients, everybody at its own pace."""
    seconds = float(trips.size / np.sum(1.0 / trips))
    if loop.lag is None:
        return seconds
    return max(seconds, float(np.max(trips)) / loop.lag * loop.steps_per_round(trips.size))


def _assumption(given: PlanInput) -> str:
    return (
        f"Assumed: five local epochs bring as much as {5 * given.five_epoch_efficiency:.1f} rounds of one epoch. "
        "Measured: 4.6 on digits, 2.5 on Fashion-MNIST; in the paper 3.4. The less, the more compression saves."
    )


def _verdict(plain: MethodPlan, best: MethodPlan, saved: float, pays: bool) -> str:
    if plain.round_seconds > TOO_LONG_SECONDS:
        days, who = plain.round_seconds / TOO_LONG_SECONDS, plain.last or "the slowest client"
        return (
            f"A round of {plain.method} would take {days:.3g} days, waiting for {who}: a typing error? "
            "Links are in Mbit/s, computing in seconds."
        )
    last = f" Last to finish: {best.last}{_unless_same(plain, best)}." if best.last else ""
    if pays:
        return (
            f"Compression pays: {best.method} needs {best.progress_seconds:.1f} s per epoch of progress, "
            f"{plain.method} {plain.progress_seconds:.1f} s: {100 * saved:.0f} % of the time saved.{last}"
        )
    links = plain.upload_seconds + plain.download_seconds
    return (
        f"Compression does not pay here: the best of it saves {100 * max(saved, 0.0):.0f} % of the time, "
        f"since the links take only {links:.1f} s of a round of {plain.round_seconds:.1f} s.{last}"
    )


def _unless_same(plain: MethodPlan, best: MethodPlan) -> str:
    return "" if plain.last == best.last else f" with {best.method}, {plain.last} with {plain.method}"
