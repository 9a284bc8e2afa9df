"""Slow links on one machine: every SuperNode in a network namespace of its own behind token buckets.

    node ns ── eth0 (tbf: uplink) ═ veth (tbf: downlink) ── bridge in the SuperLink's ns

Needs root and Linux. Everything is named `agq…` and taken away at the end, also after an error.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

LINK = "agq-link"
ADDRESS = "10.77.0.1"
LEAST_BURST_KB = 16  # a bucket: what may leave at once; a kernel tick must not empty it
LATENCY = "400ms"  # of queue before packets are dropped


def node_namespace(number: int) -> str:
    return f"agq-n{number}"


def ip(*words: str) -> None:
    """Run `ip`, or another program of that family."""
    subprocess.run(words, check=True, capture_output=True, text=True, timeout=20)


@contextmanager
def namespaces(uplinks_mbps: Sequence[float], downlink_mbps: float) -> Iterator[None]:
    """Make the links; take them away when the block ends."""
    take_away(len(uplinks_mbps))
    try:
        ip("ip", "netns", "add", LINK)
        inside = ("ip", "netns", "exec", LINK)
        ip(*inside, "ip", "link", "set", "lo", "up")
        ip(*inside, "ip", "link", "add", "agqbr", "type", "bridge")
        ip(*inside, "ip", "addr", "add", f"{ADDRESS}/24", "dev", "agqbr")
        ip(*inside, "ip", "link", "set", "agqbr", "up")
        for number, rate in enumerate(uplinks_mbps):
            _add_node(number, rate, downlink_mbps)
        yield
    finally:
        take_away(len(uplinks_mbps))


def _add_node(number: int, uplink_mbps: float, downlink_mbps: float) -> None:
    name, veth = node_namespace(number), f"agqv{number}"
    ip("ip", "netns", "add", name)
    ip("ip", "link", "add", veth, "netns", LINK, "type", "veth", "peer", "name", "eth0", "netns", name)
    link, node = ("ip", "netns", "exec", LINK), ("ip", "netns", "exec", name)
    ip(*link, "ip", "link", "set", veth, "master", "agqbr", "up")
    ip(*node, "ip", "link", "set", "lo", "up")
    ip(*node, "ip", "addr", "add", f"10.77.0.{10 + number}/24", "dev", "eth0")
    ip(*node, "ip", "link", "set", "eth0", "up")
    ip(*node, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *_bucket(uplink_mbps))
    ip(*link, "tc", "qdisc", "add", "dev", veth, "root", "tbf", *_bucket(downlink_mbps))


def _bucket(mbps: float) -> tuple[str, ...]:
    return ("rate", f"{mbps}mbit", "burst", f"{max(LEAST_BURST_KB, int(mbps))}kb", "latency", LATENCY)


def take_away(nodes: int) -> None:
    """Remove what is there; devices go with their namespaces."""
    for name in (LINK, *map(node_namespace, range(nodes))):
        with suppress(subprocess.CalledProcessError):
            ip("ip", "netns", "delete", name)
