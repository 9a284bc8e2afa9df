"""Fleets: devices, links and traces; seconds for work and for bytes, in closed form and from a seed."""

from adagq.simulation.fleet.config import ClientConfig, FleetConfig, fleet_config, load_fleet, paper, sigma_r
from adagq.simulation.fleet.devices import Device
from adagq.simulation.fleet.failures import Presence, Reliability
from adagq.simulation.fleet.fleets import Client, Fleet, build
from adagq.simulation.fleet.links import FREE, ConstantLink, Link, PacketLink, PiecewiseLink, RoundLink
from adagq.simulation.fleet.measured import fleet_from_csv, fleet_toml
from adagq.simulation.fleet.sanity import slow_link
from adagq.simulation.fleet.traces import parse_presence, parse_trace, read_presence, read_trace

__all__ = [
    "FREE",
    "Client",
    "ClientConfig",
    "ConstantLink",
    "Device",
    "Fleet",
    "FleetConfig",
    "Link",
    "PacketLink",
    "PiecewiseLink",
    "Presence",
    "Reliability",
    "RoundLink",
    "build",
    "fleet_config",
    "fleet_from_csv",
    "fleet_toml",
    "load_fleet",
    "paper",
    "parse_presence",
    "parse_trace",
    "read_presence",
    "read_trace",
    "sigma_r",
    "slow_link",
]
