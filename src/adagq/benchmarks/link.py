"""How fast a node's link is, each way: `adagq bench link`, with one TCP connection, as Flower uses one.

    adagq bench link --listen --csv links.csv           where the server will be
    adagq bench link SERVER --name lyon                 on every node

Who receives measures: bytes that arrived after a warm-up, over the seconds that they took. A test is one connection;
the listener serves one at a time, so that nodes do not share its link, and others wait in its queue. The first line
of a connection is JSON and says what is tested; the listener answers `go`:

    ping     the node sends a byte and gets it back, twenty times
    down     the listener sends until the node, which measures, hangs up
    up       the node sends until the listener, which measures, answers with the rate
    report   the node says its name and what was found; the listener notes it

Nothing is authenticated or encrypted, and only sizes and times are kept: listen as long as you measure.
"""

import json
import os
import re
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from adagq.core.errors import AdagqError, ConfigError
from adagq.report.units import digits

PORT: Final = 9300
PINGS: Final = 20
CHUNK: Final = 1 << 16
WARM_UP: Final = 0.25  # share of a test that is not counted: slow start, and bursts that a shaper lets through
MOST_SECONDS: Final = 60.0
PATIENCE: Final = 20.0  # seconds without a byte
LINE: Final = 1024
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")
FIELDS: Final = ("uplink_mbps", "downlink_mbps", "latency_seconds")


class LinkError(AdagqError):
    """A link could not be measured."""


@dataclass(frozen=True, slots=True)
class LinkSpeed:
    """One measurement of one node."""

    name: str
    uplink_mbps: float
    downlink_mbps: float
    latency_seconds: float

    def __str__(self) -> str:
        rates = f"up {digits(self.uplink_mbps)} Mbit/s, down {digits(self.downlink_mbps)} Mbit/s"
        return f"{self.name}: {rates}, {digits(1000 * self.latency_seconds)} ms each way"


def measure(host: str, port: int, name: str, seconds: float = 5.0, waiting: float = 600.0) -> LinkSpeed:
    """Measure this node's link to a listener; `waiting` is how long others may be served first."""
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"--name {name!r}: must begin with a letter or digit and have no more than these, . _ - and spaces"
        )

    def connection(test: str, **more: Any) -> Any:
        return _asked(host, port, {"adagq": test, "seconds": seconds, **more}, waiting)

    with connection("ping") as link:
        latency = median(_round_trips(link)) / 2
    with connection("down") as link:
        downlink = _received_mbps(link, seconds)
    with connection("up") as link:
        uplink = _sent_mbps(link)
    found = LinkSpeed(name, _short(uplink), _short(downlink), _short(latency))
    with connection("report", **asdict(found)) as link:
        _line(link)
    return found


def listen(
    port: int,
    found: Callable[[LinkSpeed], object],
    nodes: int | None = None,
    host: str = "",
    ready: Callable[[int], object] = lambda port: None,
) -> None:
    """Serve tests, one at a time, until `nodes` have reported; `found` gets every report, `ready` the port."""
    reports = 0
    try:
        server = socket.create_server((host, port), backlog=64)
    except OSError as error:
        raise LinkError(f"port {port}: {error.strerror or error}") from None
    with server:
        ready(server.getsockname()[1])
        while nodes is None or reports < nodes:
            link, _ = server.accept()
            with _closing(link):
                try:
                    speed = _serve(link)
                except (OSError, LinkError, ValueError, KeyError, TypeError):
                    continue  # whoever that was: the next node is waiting
                if speed is not None:
                    reports += 1
                    found(speed)


def append_csv(path: Path, speed: LinkSpeed) -> None:
    """Add a line to the CSV that `adagq fleet from-csv` reads; a new file gets a header."""
    head = "" if path.exists() else ",".join(("name", *FIELDS)) + "\n"
    cells = (speed.name, *(f"{getattr(speed, key):g}" for key in FIELDS))
    with path.open("a", encoding="utf-8") as file:
        file.write(head + ",".join(cells) + "\n")


def _serve(link: socket.socket) -> LinkSpeed | None:
    """Answer one connection; a report is returned."""
    asked = json.loads(_line(link))
    test = asked["adagq"]
    if test == "report":
        speed = LinkSpeed(str(asked["name"]), *(float(asked[key]) for key in FIELDS))
        if not NAME.fullmatch(speed.name) or not all(0 <= getattr(speed, key) < 1e9 for key in FIELDS):
            raise ValueError(asked)
        link.sendall(b"go\nnoted\n")
        return speed
    seconds = min(max(float(asked["seconds"]), 0.1), MOST_SECONDS)
    link.sendall(b"go\n")
    if test == "ping":
        for _ in range(PINGS):
            link.sendall(_exactly_one(link))
    elif test == "down":
        _send_until_hung_up(link, time.perf_counter() + 4 * seconds + PATIENCE)
    elif test == "up":
        link.sendall(f"{_received_mbps(link, seconds):.6g}\n".encode())
        link.settimeout(PATIENCE)
        while link.recv(CHUNK):  # what was under way, until the node hangs up
            pass
    return None


def _round_trips(link: socket.socket) -> Iterator[float]:
    for _ in range(PINGS):
        begun = time.perf_counter()
        link.sendall(b".")
        _exactly_one(link)
        yield time.perf_counter() - begun


def _received_mbps(link: socket.socket, seconds: float) -> float:
    """Return the rate at which bytes arrive, measured between the warm-up and the end of the test."""
    begun = time.perf_counter()
    warm, counted, last = 0.0, 0, 0.0
    while (now := time.perf_counter()) < begun + seconds or counted == 0:
        if not (size := len(link.recv(CHUNK))):
            raise LinkError("the other side hung up in the middle of a test")
        last = time.perf_counter()
        if warm:
            counted += size
        elif last >= begun + WARM_UP * seconds:
            warm = last
        if now > begun + seconds + PATIENCE:
            raise LinkError("too little arrives to measure a rate")
    return 8e-6 * counted / (last - warm)


def _sent_mbps(link: socket.socket) -> float:
    """Send until the listener answers; return what it measured."""
    noise = os.urandom(CHUNK)  # nothing on the way can compress it
    link.setblocking(False)
    while True:
        readable, writable, _ = select.select([link], [link], [], PATIENCE)
        if readable:
            link.settimeout(PATIENCE)
            return float(_line(link))
        if not writable:
            raise LinkError(f"nothing could be sent for {PATIENCE:g} s")
        link.send(noise)


def _send_until_hung_up(link: socket.socket, deadline: float) -> None:
    noise = os.urandom(CHUNK)
    try:
        while time.perf_counter() < deadline:
            link.send(noise)
    except ConnectionError:
        return


@contextmanager
def _asked(host: str, port: int, question: dict[str, Any], waiting: float) -> Iterator[socket.socket]:
    """Yield a connection on which the listener has said that it is this test's turn."""
    try:
        link = socket.create_connection((host, port), timeout=PATIENCE)
    except OSError as error:
        why = error.strerror or error
        raise LinkError(f"{host} port {port}: {why}; is `adagq bench link --listen` running there?") from None
    with _closing(link):
        try:
            link.settimeout(waiting)
            link.sendall(json.dumps(question).encode() + b"\n")
            if _line(link) != "go":
                raise LinkError(f"{host} port {port}: whoever answers is not `adagq bench link --listen`")
            link.settimeout(PATIENCE)
            yield link
        except (OSError, ValueError) as error:
            raise LinkError(f"{host} port {port}: {getattr(error, 'strerror', None) or error}") from None


@contextmanager
def _closing(link: socket.socket) -> Iterator[None]:
    """Hang up at once: what still lies in buffers of a slow link would take minutes."""
    link.settimeout(PATIENCE)
    try:
        yield
    finally:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()


def _line(link: socket.socket) -> str:
    text = b""
    while not text.endswith(b"\n"):
        if len(text) > LINE:
            raise LinkError("a line that is too long")
        text += _exactly_one(link)
    return text.decode("ascii", "replace").strip()


def _exactly_one(link: socket.socket) -> bytes:
    if not (byte := link.recv(1)):
        raise LinkError("the other side hung up")
    return byte


def _short(value: float) -> float:
    return float(f"{value:.4g}")
