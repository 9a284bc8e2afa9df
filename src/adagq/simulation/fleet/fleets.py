"""A fleet: one device and two links per client, built from settings and a seed.

Every draw has its own path (`derive(seed, "fleet", client, …)`): a further client, or another key, changes no other
client. So a client is made when it is asked for, and a fleet of 100,000 is no larger than its settings.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.core.seeds import derive, generator
from adagq.core.settings import Span
from adagq.simulation.fleet.config import ClientConfig, FleetConfig
from adagq.simulation.fleet.devices import Device
from adagq.simulation.fleet.failures import ALWAYS, Reliability
from adagq.simulation.fleet.links import FREE, ConstantLink, Link, PiecewiseLink, RoundLink
from adagq.simulation.fleet.traces import read_presence, read_trace

TraceReader = Callable[[str, float], Link]
KEPT_CLIENTS = 4096


@dataclass(frozen=True, slots=True)
class Client:
    """What one client computes and communicates with."""

    device: Device
    uplink: Link
    downlink: Link
    join_round: int = 1
    reliability: Reliability = ALWAYS


class Members(Sequence[Client]):
    """Clients that are made when they are asked for; the latest are kept. Thousands cost their places in one column."""

    def __init__(self, make: Callable[[int], Client], join_rounds: NDArray[np.int32], timed: bool) -> None:
        self._join_rounds = join_rounds
        self.timed = timed
        self._made = functools.lru_cache(KEPT_CLIENTS)(make)

    def __len__(self) -> int:
        return len(self._join_rounds)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._made(int(index) % len(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def changed(self, change: Callable[[Client], Client]) -> "Members":
        """Return these clients with a change to each."""
        return Members(lambda index: change(self[index]), self._join_rounds, self.timed)

    def joined(self, round: int) -> tuple[int, ...]:
        """Return who has joined by this round."""
        return tuple(np.flatnonzero(self._join_rounds <= round).tolist())


@dataclass(frozen=True, slots=True)
class Fleet:
    """All clients, and the seconds that the server adds to every round.

    >>> from adagq.simulation.fleet import paper
    >>> fleet = build(paper(), seed=1)
    >>> len(fleet), 5e6 <= fleet.clients[0].uplink.rate_bps <= 20e6, fleet.clients[0].downlink.rate_bps
    (20, True, 70000000.0)
    """

    clients: Sequence[Client]  # a tuple, or `Members`, which are made when they are asked for
    server_seconds: float = 0.0
    server_cores: float = 8.0
    exchange_seconds: float = 0.0  # what every exchange of a round takes beside bytes and computing
    edges: int = 0  # servers between clients and server; 0 = none
    edge_mbps: float = 1000.0
    edge_levels: int = 255

    def __len__(self) -> int:
        return len(self.clients)

    def calibrated(self, samples: Sequence[int], flops_per_sample: float) -> "Fleet":
        """Return the fleet for this data and model: a client with more samples than the mean takes longer."""
        share = fmean(samples)
        return self._with(lambda c: replace(c, device=c.device.calibrated(share, flops_per_sample)))

    def with_free_links(self) -> "Fleet":
        """Return the fleet that communicates in no time: the reference of the communication tax."""
        free = self._with(lambda c: replace(c, uplink=FREE, downlink=FREE))
        return replace(free, exchange_seconds=0.0, edges=0)

    @property
    def timed(self) -> bool:
        """Whether all devices' speeds are given as seconds an epoch."""
        if isinstance(self.clients, Members):
            return self.clients.timed
        return all(client.device.epoch_seconds is not None for client in self.clients)

    def present(self, round: int) -> tuple[int, ...]:
        """Return the clients that have joined by this round."""
        if isinstance(self.clients, Members):
            return self.clients.joined(round)
        return tuple(index for index, client in enumerate(self.clients) if client.join_round <= round)

    def _with(self, change: Callable[[Client], Client]) -> "Fleet":
        if isinstance(self.clients, Members):
            return replace(self, clients=self.clients.changed(change))
        return replace(self, clients=tuple(map(change, self.clients)))


def build(config: FleetConfig, seed: int) -> Fleet:
    """Return the fleet that `config` describes; the same seed gives the same fleet anywhere."""
    read = functools.cache(read_trace)  # a trace that many clients share is read once
    groups, counts = zip(*_groups(config), strict=True)
    ends = np.cumsum(counts)

    def make(index: int) -> Client:
        return _client(config, groups[int(np.searchsorted(ends, index, side="right"))], index, seed, read)

    rounds = [config.join_round if group.join_round is None else group.join_round for group in groups]
    timed = all(_speeds(config, group).epoch_seconds is not None for group in groups)
    for end in ends:
        make(int(end) - 1)  # a trace that cannot be read is an error now
    members = Members(make, np.repeat(np.array(rounds, np.int32), counts), timed)
    return Fleet(
        members,
        config.server_seconds,
        config.server_cores,
        config.exchange_seconds,
        config.edges,
        config.edge_mbps,
        config.edge_levels,
    )


def _groups(config: FleetConfig) -> Iterator[tuple[ClientConfig, int]]:
    """Yield tables, each with the number of its clients."""
    if config.sigma_r is not None:
        fastest = _ends(config.uplink_mbps)[1]
        slowest = fastest / config.sigma_r
        yield ClientConfig(uplink_mbps=fastest), 1
        yield ClientConfig(uplink_mbps=slowest), 1
        if config.clients > 2:
            yield ClientConfig(uplink_mbps=(slowest, fastest)), config.clients - 2
        return
    for group in config.client or (ClientConfig(count=config.clients),):
        yield group, group.count


def _speeds(config: FleetConfig, group: ClientConfig) -> ClientConfig | FleetConfig:
    """Return who says how fast a group computes: one that names one way does not inherit the other."""
    return group if group.epoch_seconds is not None or group.flops_per_second is not None else config


def _client(config: FleetConfig, group: ClientConfig, index: int, seed: int, read: TraceReader) -> Client:
    path = derive(seed, "fleet", index)
    speeds = _speeds(config, group)
    device = Device(
        epoch_seconds=_draw(speeds.epoch_seconds, path, "epoch"),
        flops_per_second=_draw(speeds.flops_per_second, path, "flops"),
        encode_seconds_per_element=config.encode_seconds_per_element,
        decode_seconds_per_element=config.decode_seconds_per_element,
        jitter=config.jitter if group.jitter is None else group.jitter,
        seed=derive(path, "device"),
    )
    return Client(
        device=device,
        uplink=_link(config, group, "uplink", path, read),
        downlink=_link(config, group, "downlink", path, read),
        join_round=config.join_round if group.join_round is None else group.join_round,
        reliability=_reliability(config, group, path),
    )


def _reliability(config: FleetConfig, group: ClientConfig, path: int) -> Reliability:
    def own(name: str) -> Any:
        value = getattr(group, name)
        return getattr(config, name) if value is None else value

    trace = own("availability_trace")
    return Reliability(
        drop_rate=own("drop_rate"),
        availability=_uniform(own("availability"), path, "availability"),
        leave_round=own("leave_round"),
        presence=None if trace is None else read_presence(trace),
        seed=path,
    )


def _link(config: FleetConfig, group: ClientConfig, name: str, path: int, read: TraceReader) -> Link:
    link = _unscaled_link(config, group, name, path, read)
    scale: float = config.link_scale * getattr(config, f"{name}_scale")
    return link if scale == 1.0 else link.scaled(scale)


def _unscaled_link(config: FleetConfig, group: ClientConfig, name: str, path: int, read: TraceReader) -> Link:
    latency = config.latency_seconds if group.latency_seconds is None else group.latency_seconds
    own_rate: Span | None = getattr(group, f"{name}_mbps")
    trace: str | None = getattr(group, f"{name}_trace")
    if trace is None and own_rate is None:
        trace = getattr(config, f"{name}_trace")
    if trace is not None:
        return read(trace, latency)
    rate_bps = 1e6 * _uniform(getattr(config, f"{name}_mbps") if own_rate is None else own_rate, path, name)
    spread = config.rate_spread if group.rate_spread is None else group.rate_spread
    if spread == 0.0:
        return ConstantLink(rate_bps, latency)
    interval = group.rate_interval_seconds or config.rate_interval_seconds
    if interval is None:
        return RoundLink(rate_bps, spread, derive(path, name), latency)
    return replace(PiecewiseLink.drawn(rate_bps, spread, interval, derive(path, name)), latency_seconds=latency)


def _ends(span: Span) -> tuple[float, float]:
    return span if isinstance(span, tuple) else (span, span)


def _draw(span: Span | None, path: int, name: str) -> float | None:
    return None if span is None else _uniform(span, path, name)


def _uniform(span: Span, path: int, name: str) -> float:
    low, high = _ends(span)
    return float(low) if low == high else float(generator(path, name, "uniform").uniform(low, high))
