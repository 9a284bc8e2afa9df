"""What `adagq plan` is given: the fleet, the model, and what is assumed of the methods."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from adagq.core.errors import ConfigError
from adagq.simulation.fleet import Fleet, Link

# `adagq bench flower`, two nodes, a message of 1 kB: what an exchange costs by the program that starts nodes.
EXCHANGE_SECONDS: Final = {"node": 0.42, "supernode": 4.43}


@dataclass(frozen=True, slots=True)
class PlannedClient:
    """One client of a fleet whose links are known."""

    uplink_mbps: float
    downlink_mbps: float
    epoch_seconds: float
    latency_seconds: float = 0.0  # of every message, each way
    name: str = ""


@dataclass(frozen=True, slots=True)
class PlanInput:
    """The fleet, the model and what is assumed of the methods; `members` take the place of the four fleet keys."""

    params: float
    members: tuple[PlannedClient, ...] = ()
    uplink_mbps: tuple[float, float] = (5.0, 20.0)
    downlink_mbps: float = 70.0
    clients: int = 20
    compute_seconds: float = 15.5  # one local epoch
    compute_spread: float = 0.1
    server_seconds: float = 0.0
    exchange_seconds: float = 0.0  # a round's one exchange, beside bytes and computing
    # Five local epochs on unlike data bring less than five rounds: measured on digits 0.92 (8.33 rounds of five where
    # one-epoch rounds take 38.3) and on Fashion-MNIST 0.50; in the paper's tables 0.67. The default promises least.
    five_epoch_efficiency: float = 0.92
    adagq_levels: float = 255.0  # its mean levels; its rule moves them, its cost moves little
    fit_slack_seconds: float = 0.5  # adagq-fit: how much longer than the slowest computer a round may take,
    fit_min_bits: float = 0.15  # but never less than what this many bits per parameter take,
    fit_max_bits: float = 4.0  # and nobody sends more than this
    fit_downlink_bits: float = 1.6  # measured on digits: 86.1 MB in 38.3 rounds of 11.17 M parameters
    worthwhile: float = 0.05  # below this share of time saved, compression does not pay

    def __post_init__(self) -> None:
        for key in ("params", "downlink_mbps", "clients", "compute_seconds", "five_epoch_efficiency"):
            _require(getattr(self, key) > 0, key, getattr(self, key), "> 0")
        low, high = self.uplink_mbps
        _require(0 < low <= high, "uplink", f"{low:g},{high:g}", "low,high with 0 < low <= high")
        _require(0 <= self.compute_spread < 1, "compute_spread", self.compute_spread, ">= 0 and < 1")
        for key in ("server_seconds", "exchange_seconds"):
            _require(0 <= getattr(self, key) < math.inf, key, getattr(self, key), ">= 0")


def members_of(fleet: Fleet, names: Sequence[str], params: float) -> tuple[PlannedClient, ...]:
    """Return the clients of a fleet; a link that changes has its mean rate over one transfer of the float32 model.

    >>> from adagq.simulation.fleet import build, paper
    >>> members_of(build(paper(uplink_mbps=4.0, epoch_seconds=9.0, clients=1), seed=0), ["lyon"], 1e6)
    (PlannedClient(uplink_mbps=4.0, downlink_mbps=70.0, epoch_seconds=9.0, latency_seconds=0.0, name='lyon'),)
    """
    members = []
    for client, name in zip(fleet.clients, names, strict=True):
        if client.device.epoch_seconds is None:
            raise ConfigError("fleet.epoch_seconds: not set; a plan needs the seconds of a local epoch, not FLOP/s")
        uplink, downlink = _mean_mbps(client.uplink, params), _mean_mbps(client.downlink, params)
        latency = client.uplink.latency_seconds
        members.append(PlannedClient(uplink, downlink, client.device.epoch_seconds, latency, name))
    return tuple(members)


def _mean_mbps(link: Link, params: float) -> float:
    return 8e-6 * 4 * params / (link.seconds(4 * params) - link.latency_seconds)


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


def parse_exchange_seconds(text: str) -> float:
    """Return seconds, or what was measured with `adagq node` ("node") or `flower-supernode` ("supernode").

    >>> parse_exchange_seconds("1.5"), parse_exchange_seconds("node")
    (1.5, 0.42)
    """
    if text in EXCHANGE_SECONDS:
        return EXCHANGE_SECONDS[text]
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    _require(0 <= seconds < math.inf, "exchange_seconds", text, "a number >= 0, 'node' or 'supernode'")
    return seconds


def _require(holds: bool, key: str, value: object, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"{key} = {value!r}: must be {allowed}")
