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

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from adagq.core.errors import ConfigError
from adagq.core.settings import Each, Number, Span, Text, Whole, config_error, settings
from adagq.simulation.fleet.devices import DECODE_SECONDS_PER_ELEMENT, ENCODE_SECONDS_PER_ELEMENT

Mbps = Annotated[Span, Each(gt=0)]
EpochSeconds = Annotated[Span, Each(gt=0, le=1e9)]
FlopsPerSecond = Annotated[Span, Each(gt=0, le=1e21)]
Chance = Annotated[Span, Each(ge=0, le=1)]
Seconds = Annotated[Number, Field(ge=0, le=1e6)]
Interval = Annotated[Number, Field(gt=0, le=1e6)]
Spread = Annotated[Number, Field(ge=0, le=5)]
Jitter = Annotated[Number, Field(ge=0, le=0.99)]
Rate = Annotated[Number, Field(ge=0, le=1)]
Scale = Annotated[Number, Field(gt=0, le=1e9)]
Count = Annotated[Whole, Field(ge=1)]
Trace = Annotated[Text, Field(description="the path of a trace file")]


@settings("fleet.client")
class ClientConfig:
    """One `[[client]]` table: `count` clients; None takes the fleet's value."""

    count: Count = 1
    name: Text | None = None  # what you call it: for messages alone
    uplink_mbps: Mbps | None = None
    downlink_mbps: Mbps | None = None
    uplink_trace: Trace | None = None  # a file; takes the place of uplink_mbps
    downlink_trace: Trace | None = None
    latency_seconds: Seconds | None = None
    rate_spread: Spread | None = None
    rate_interval_seconds: Interval | None = None
    epoch_seconds: EpochSeconds | None = None
    flops_per_second: FlopsPerSecond | None = None
    jitter: Jitter | None = None
    join_round: Count | None = None
    leave_round: Count | None = None
    drop_rate: Rate | None = None
    availability: Chance | None = None
    availability_trace: Trace | None = None


@settings("fleet")
class FleetConfig:
    """All clients' settings; the defaults are the paper's fleet."""

    clients: Count = 20  # how many, all alike; or `[[client]]` tables
    uplink_mbps: Mbps = (5.0, 20.0)  # from client to server; of a range each client draws its own
    downlink_mbps: Mbps = 70.0  # from server to client
    # Fastest = the upper end of uplink_mbps, slowest = fastest / sigma_r, the others uniform between.
    sigma_r: Annotated[Number, Field(ge=1, le=1e6)] | None = None
    # Rates times this: 0.1 is ten times slower. link_scale is for both directions, on top of each one's own.
    link_scale: Scale = 1.0
    uplink_scale: Scale = 1.0  # uplink rates times this
    downlink_scale: Scale = 1.0  # downlink rates times this
    uplink_trace: Trace | None = None  # a file of rates over time; takes the place of uplink_mbps
    downlink_trace: Trace | None = None  # a file of rates over time; takes the place of downlink_mbps
    latency_seconds: Seconds = 0.0  # of every message, each way
    rate_spread: Spread = 0.0  # sigma of log-normal rates around each client's own; 0 = constant
    rate_interval_seconds: Interval | None = None  # a new rate every so many seconds; None = every round
    # One local epoch over an equal share of the samples; takes precedence over flops_per_second.
    epoch_seconds: EpochSeconds | None = (13.95, 17.05)
    flops_per_second: FlopsPerSecond | None = None  # a device's speed, where epoch_seconds is not set
    jitter: Jitter = 0.0  # compute times vary by up to this share from round to round
    encode_seconds_per_element: Rate = ENCODE_SECONDS_PER_ELEMENT  # on a device
    decode_seconds_per_element: Rate = DECODE_SECONDS_PER_ELEMENT  # on a device
    server_seconds: Seconds = 0.0  # of every round, on top of decoding and encoding
    # Of every exchange of a round, beside bytes and computing; `adagq bench flower` measures it.
    exchange_seconds: Seconds = 0.0
    server_cores: Interval = 8.0  # each twice as fast as a device's; payloads are decoded side by side
    # Edge servers: each adds up its clients' updates and sends on the mean, encoded anew. Client i is with i mod edges.
    edges: Annotated[Whole, Field(ge=0, le=100_000)] = 0  # 0 = clients send to the server
    edge_mbps: Annotated[Number, Field(gt=0, le=1e6)] = 1000.0  # from an edge to the server
    edge_levels: Annotated[Whole, Field(ge=1, le=65535)] = 255  # of the edges' payloads, entropy coded with dither
    join_round: Count = 1  # rounds count from 1
    leave_round: Count | None = None  # gone for ever from this round on
    drop_rate: Rate = 0.0  # chance that a client fails in a round: before its report, in training or in its upload
    availability: Chance = 1.0  # chance that a client is there at all when a round begins; a range: each has its own
    availability_trace: Trace | None = None  # a file of on and off times, on top of both
    client: Annotated[tuple[ClientConfig, ...], Field(description="an array of tables, [[client]]")] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "FleetConfig":
        if self.sigma_r is not None and self.client:
            raise ValueError(f"fleet.sigma_r = {self.sigma_r:g}: cannot be combined with [[client]] tables")
        if self.sigma_r is not None and self.clients < 2:
            raise ValueError(f"fleet.clients = {self.clients!r}: must be >= 2 with sigma_r")
        if self.epoch_seconds is None and self.flops_per_second is None:
            raise ValueError("fleet.epoch_seconds: not set, either it or flops_per_second must be")
        return self


FLEET = TypeAdapter(FleetConfig)


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
    5.0
    """
    try:
        return FLEET.validate_python(with_paths(data, folder))
    except ValidationError as invalid:
        raise config_error(invalid, FleetConfig, "fleet") from None


def with_paths(data: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """Return the settings with their trace files relative to `folder`, those of the client tables too."""
    resolved = dict(data)
    for key, value in data.items():
        if key.endswith("_trace") and isinstance(value, str) and folder is not None:
            resolved[key] = str(folder / value)
        elif key == "client" and isinstance(value, list | tuple):
            resolved[key] = tuple(with_paths(each, folder) if isinstance(each, Mapping) else each for each in value)
    return resolved
