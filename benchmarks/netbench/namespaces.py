"""Slow links on one machine: every SuperNode in a network namespace of its own behind token buckets.

    node ns ── eth0 (tbf: uplink) ═ veth (tbf: downlink) ── bridge in the SuperLink's ns

Needs root and Linux. Namespaces are named after the process that made them, and taken away at the end, also after an
error; what a killed one left is taken away by the next.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ADDRESS = "10.77.0.1"
LEAST_BURST_KB = 16  # a bucket: what may leave at once; a kernel tick must not empty it
LATENCY = "400ms"  # of queue before packets are dropped
PREFIX = "agq"
BRIDGE = "agqbr"


class Links:
    """The links of one federation; `mbps` are (up, down) of every node."""

    def __init__(self, mbps: Sequence[tuple[float, float]]) -> None:
        self._mbps = list(mbps)
        self._own = f"{PREFIX}{os.getpid()}"

    def namespace(self, number: int | None = None) -> str:
        """Return where a node lives; the SuperLink without a number."""
        return f"{self._own}-link" if number is None else f"{self._own}-n{number}"

    def add(self) -> None:
        """Make the namespaces and connect them."""
        link = self.namespace()
        run("ip", "netns", "add", link)
        inside = ("ip", "netns", "exec", link)
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "link", "add", BRIDGE, "type", "bridge")
        run(*inside, "ip", "addr", "add", f"{ADDRESS}/24", "dev", BRIDGE)
        run(*inside, "ip", "link", "set", BRIDGE, "up")
        for number, mbps in enumerate(self._mbps):
            self._add_node(number)
            self.set(number, mbps, "add")

    def set(self, number: int, mbps: tuple[float, float], verb: str = "change") -> None:
        """Give a node these rates, up and down."""
        ends = ((self.namespace(number), "eth0"), (self.namespace(), f"veth{number}"))
        for (namespace, device), rate in zip(ends, mbps, strict=True):
            command = ("ip", "netns", "exec", namespace, "tc", "qdisc", verb, "dev", device, "root", "tbf")
            run(*command, *_bucket(rate))

    def remove(self) -> None:
        """Take away what is there; devices go with their namespaces."""
        for name in (self.namespace(), *map(self.namespace, range(len(self._mbps)))):
            with suppress(subprocess.CalledProcessError):
                run("ip", "netns", "delete", name)

    def _add_node(self, number: int) -> None:
        link, name, veth = self.namespace(), self.namespace(number), f"veth{number}"
        run("ip", "netns", "add", name)
        run("ip", "link", "add", veth, "netns", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "netns", "exec", link, "ip", "link", "set", veth, "master", BRIDGE, "up")
        inside = ("ip", "netns", "exec", name)
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "addr", "add", f"10.77.0.{10 + number}/24", "dev", "eth0")
        run(*inside, "ip", "link", "set", "eth0", "up")


@contextmanager
def links(mbps: Sequence[tuple[float, float]]) -> Iterator[Links]:
    """Make the links; take them away when the block ends."""
    remove_orphans()
    made = Links(mbps)
    try:
        made.add()
        yield made
    finally:
        made.remove()


def remove_orphans() -> None:
    """Take away the namespaces of processes that are gone."""
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0]
        maker = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and maker.isdigit() and not Path(f"/proc/{maker}").exists():
            with suppress(subprocess.CalledProcessError):
                run("ip", "netns", "delete", name)


def run(*command: str) -> str:
    """Run `ip`, or another program of that family, and return what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


def _bucket(mbps: float) -> tuple[str, ...]:
    return ("rate", f"{mbps * 1000:.0f}kbit", "burst", f"{max(LEAST_BURST_KB, int(mbps))}kb", "latency", LATENCY)
