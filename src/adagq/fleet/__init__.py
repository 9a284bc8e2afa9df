"""Fleets: devices, links and traces; seconds for work and for bytes, in closed form and from a seed."""

from adagq.fleet.config import ClientConfig, FleetConfig, fleet_config, load_fleet, paper, sigma_r
from adagq.fleet.devices import Device
from adagq.fleet.failures import Presence, Reliability
from adagq.fleet.fleets import Client, Fleet, build
from adagq.fleet.links import FREE, ConstantLink, Link, PacketLink, PiecewiseLink, RoundLink
from adagq.fleet.traces import parse_presence, parse_trace, read_presence, read_trace

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
    "load_fleet",
    "paper",
    "parse_presence",
    "parse_trace",
    "read_presence",
    "read_trace",
    "sigma_r",
]
