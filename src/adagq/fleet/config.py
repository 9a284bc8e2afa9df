"""A fleet as plain settings, and as TOML.

The settings of the whole fleet are the defaults of every client; `[[client]]` tables, each for `count`
clients, override them:

    downlink_mbps = 20
    [[client]]
    count = 19
    uplink_mbps = [5, 20]        # each client's own, uniform
    [[client]]
    uplink_mbps = 0.5
    epoch_seconds = 40
    join_round = 10

Without tables there are `clients` alike. The defaults are the paper's fleet.
"""

import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from adagq.errors import ConfigError
from adagq.fleet.devices import DECODE_SECONDS_PER_ELEMENT, ENCODE_SECONDS_PER_ELEMENT

Span = float | tuple[float, float]  # one value for all, or a range: each client draws its own, uniformly


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """One `[[client]]` table: `count` clients; None takes the fleet's value."""

    count: int = 1
    uplink_mbps: Span | None = None
    downlink_mbps: Span | None = None
    uplink_trace: str | None = None  # a file; takes the place of uplink_mbps
    downlink_trace: str | None = None
    latency_seconds: float | None = None
    rate_spread: float | None = None
    rate_interval_seconds: float | None = None
    epoch_seconds: Span | None = None
    flops_per_second: Span | None = None
    jitter: float | None = None
    join_round: int | None = None
    leave_round: int | None = None
    drop_rate: float | None = None
    availability: Span | None = None
    availability_trace: str | None = None


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """All clients' settings; the defaults are the paper's fleet."""

    clients: int = 20
    uplink_mbps: Span = (5.0, 20.0)
    downlink_mbps: Span = 70.0
    # Fastest = the upper end of uplink_mbps, slowest = fastest / sigma_r, the others uniform between.
    sigma_r: float | None = None
    # Rates times this: 0.1 is ten times slower. link_scale is for both directions, on top of each one's own.
    link_scale: float = 1.0
    uplink_scale: float = 1.0
    downlink_scale: float = 1.0
    uplink_trace: str | None = None
    downlink_trace: str | None = None
    latency_seconds: float = 0.0
    rate_spread: float = 0.0  # sigma of log-normal rates around each client's own; 0 = constant
    rate_interval_seconds: float | None = None  # a new rate every so many seconds; None = every round
    # One local epoch over an equal share of the samples; takes precedence over flops_per_second.
    epoch_seconds: Span | None = (13.95, 17.05)
    flops_per_second: Span | None = None
    jitter: float = 0.0
    encode_seconds_per_element: float = ENCODE_SECONDS_PER_ELEMENT
    decode_seconds_per_element: float = DECODE_SECONDS_PER_ELEMENT
    server_seconds: float = 0.0
    server_cores: float = 8.0  # each twice as fast as a device's; payloads are decoded side by side
    join_round: int = 1  # rounds count from 1
    leave_round: int | None = None  # gone for ever from this round on
    drop_rate: float = 0.0  # chance that a client fails in a round: before its report, in training or in its upload
    availability: Span = 1.0  # chance that a client is there at all when a round begins; a range: each has its own
    availability_trace: str | None = None  # a file of on and off times, on top of both
    client: tuple[ClientConfig, ...] = ()

    def __post_init__(self) -> None:
        _check(self, "fleet")
        for index, group in enumerate(self.client):
            _check(group, f"fleet.client[{index}]")
        if self.sigma_r is not None and self.client:
            raise ConfigError(f"fleet.sigma_r = {self.sigma_r!r}: cannot be combined with [[client]] tables")
        if self.sigma_r is not None and self.clients < 2:
            raise ConfigError(f"fleet.clients = {self.clients!r}: must be >= 2 with sigma_r")
        if self.epoch_seconds is None and self.flops_per_second is None:
            raise ConfigError("fleet.epoch_seconds: not set, either it or flops_per_second must be")


def paper(**changes: Any) -> FleetConfig:
    """Return the paper's fleet: 20 clients, 5-20 Mbit/s up, 70 down, 15.5 s ± 10 % a local epoch.

    >>> paper(downlink_mbps=20.0).clients
    20
    """
    return FleetConfig(**changes)


def sigma_r(ratio: float, **changes: Any) -> FleetConfig:
    """Return the paper's fleet with uplinks from 20 / ratio to 20 Mbit/s, both ends taken."""
    return FleetConfig(sigma_r=ratio, **changes)


def load_fleet(path: str | Path) -> FleetConfig:
    """Read a fleet from TOML; trace files in it are relative to the TOML file."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"fleet = {str(path)!r}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"fleet = {str(path)!r}: not TOML: {error}") from error
    return fleet_config(data, Path(path).parent)


def fleet_config(data: Mapping[str, Any], folder: Path | None = None) -> FleetConfig:
    """Return the settings from a plain mapping.

    >>> fleet_config({"client": [{"count": 3, "uplink_mbps": 20}, {"uplink_mbps": 5}]}).client[1].uplink_mbps
    5
    """
    tables = data.get("client", ())
    if not (isinstance(tables, list | tuple) and all(isinstance(table, Mapping) for table in tables)):
        raise ConfigError(f"fleet.client = {tables!r}: must be an array of tables, [[client]]")
    groups = tuple(
        ClientConfig(**_plain(table, ClientConfig, f"fleet.client[{index}]", folder))
        for index, table in enumerate(tables)
    )
    return FleetConfig(**{**_plain(data, FleetConfig, "fleet", folder), "client": groups})


def _plain(data: Mapping[str, Any], kind: type[Any], where: str, folder: Path | None) -> dict[str, Any]:
    """Return the keyword arguments for `kind`: keys known, arrays as tuples, trace paths resolved."""
    known = [field.name for field in fields(kind)]
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known keys are {', '.join(known)}"
            raise ConfigError(f"{where}.{key}: unknown key; {hint}")
        if key.endswith("_trace") and folder is not None and isinstance(value, str):
            value = str(folder / value)
        values[key] = tuple(value) if isinstance(value, list) else value
    return values


# key: (lowest allowed, whether the lowest itself is allowed, highest allowed)
_RANGES: dict[str, tuple[float, bool, float]] = {
    "uplink_mbps": (0.0, False, math.inf),
    "downlink_mbps": (0.0, False, math.inf),
    "sigma_r": (1.0, True, 1e6),
    "link_scale": (0.0, False, 1e9),
    "uplink_scale": (0.0, False, 1e9),
    "downlink_scale": (0.0, False, 1e9),
    "latency_seconds": (0.0, True, 1e6),
    "rate_spread": (0.0, True, 5.0),
    "rate_interval_seconds": (0.0, False, 1e6),
    "epoch_seconds": (0.0, False, 1e9),
    "flops_per_second": (0.0, False, 1e21),
    "jitter": (0.0, True, 0.99),
    "drop_rate": (0.0, True, 1.0),
    "availability": (0.0, True, 1.0),
    "encode_seconds_per_element": (0.0, True, 1.0),
    "decode_seconds_per_element": (0.0, True, 1.0),
    "server_seconds": (0.0, True, 1e6),
    "server_cores": (0.0, False, 1e6),
}
_COUNTS = {"clients": 1, "count": 1, "join_round": 1, "leave_round": 1}
_SPANS = {"uplink_mbps", "downlink_mbps", "epoch_seconds", "flops_per_second", "availability"}


def _check(config: FleetConfig | ClientConfig, where: str) -> None:
    for field in fields(config):
        key, value = field.name, getattr(config, field.name)
        if value is None:
            continue
        if key in _COUNTS:
            if isinstance(value, bool) or not isinstance(value, int) or value < _COUNTS[key]:
                raise ConfigError(f"{where}.{key} = {value!r}: must be a whole number >= {_COUNTS[key]}")
        elif key in _RANGES:
            _check_numbers(f"{where}.{key}", value, *_RANGES[key], span=key in _SPANS)
        elif key.endswith("_trace") and not isinstance(value, str):
            raise ConfigError(f"{where}.{key} = {value!r}: must be the path of a trace file")


def _check_numbers(key: str, value: Any, low: float, closed: bool, high: float, span: bool) -> None:
    numbers = value if span and isinstance(value, tuple) else (value,)
    fits = len(numbers) == (2 if isinstance(value, tuple) else 1) and all(
        isinstance(x, int | float) and not isinstance(x, bool) and low <= x <= high and (closed or x > low)
        for x in numbers
    )
    if not fits or list(numbers) != sorted(numbers):
        allowed = f"{'>=' if closed else '>'} {low:g}" + (f" and <= {high:g}" if high < math.inf else "")
        shape = "a number or [low, high]" if span else "a number"
        shown = list(value) if isinstance(value, tuple) else value
        raise ConfigError(f"{key} = {shown!r}: must be {shape} {allowed}")
