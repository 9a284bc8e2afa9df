"""Traces from files: of rates, and of who is there.

    CSV         under the header `seconds,mbps` (Mbit/s) or `seconds,bits_per_second`, two numbers a line: the rate
                holds from that second until the next line's; the last one as long as the one before it (1 s if it
                is the only one). Without a header rates are bit/s
    presence    the same CSV with `seconds,present`, 1 while the client is there and 0 while it is not
    mahimahi    one integer a line: a millisecond at which one 1500-byte packet may leave

Whether rates are a CSV shows in the first line of numbers: with a comma they are. All traces repeat at the end.
Blank lines and lines that begin with `#` are skipped.
"""

import functools
import math
from collections.abc import Iterator
from pathlib import Path

from adagq.core.errors import ConfigError
from adagq.simulation.fleet.failures import Presence
from adagq.simulation.fleet.links import PacketLink, PiecewiseLink

BITS, MEGABITS = "seconds,bits_per_second", "seconds,mbps"
RATE_UNITS = {BITS: 1.0, MEGABITS: 1e6}  # header of a CSV -> bit/s of its unit
LEAST_BPS = 100.0  # the fastest rate of a trace is not below this: not even LoRaWAN's is
LEAST_BPS_UNSAID = 10_000.0  # nor below this where no header says the unit: 10,000 Mbit/s would look the same
MOST_MBPS = 1e6


def read_trace(path: str | Path, latency_seconds: float = 0.0) -> PacketLink | PiecewiseLink:
    """Return the link that the file describes."""
    return parse_trace(_text(path), str(path), latency_seconds)


@functools.cache
def read_presence(path: str | Path) -> Presence:
    """Return when a client is there, as the file says."""
    return parse_presence(_text(path), str(path))


def parse_presence(text: str, name: str = "trace") -> Presence:
    """Return when a client is there; `name` is for error messages.

    >>> parse_presence("seconds,present\\n0,1\\n60,0\\n100,1\\n").leaves(10.0)
    60.0
    """
    lines = list(_lines(text))
    if lines and lines[0][1].replace(" ", "").lower() == "seconds,present":
        lines = lines[1:]
    if not lines:
        raise ConfigError(f"trace = {name!r}: holds no numbers")
    rows = _rows(lines, name, "seconds,present")
    if bad := [value for _, value in rows if value not in (0.0, 1.0)]:
        raise ConfigError(f"trace = {name!r}: present is {bad[0]:g}, must be 0 or 1")
    starts, period = _starts(rows)
    return Presence(starts, tuple(value == 1.0 for _, value in rows), period)


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise ConfigError(f"trace = {str(path)!r}: {reason}") from error


def parse_trace(text: str, name: str = "trace", latency_seconds: float = 0.0) -> PacketLink | PiecewiseLink:
    """Return the link that `text` describes; `name` is for error messages.

    >>> parse_trace("seconds,bits_per_second\\n0,8e6\\n10,4e6\\n").seconds(15_000_000)
    20.0
    >>> parse_trace("2\\n4\\n").seconds(3000)
    0.004
    """
    lines = list(_lines(text))
    header = ""
    if lines and lines[0][1].lower().startswith("seconds"):
        header, lines = lines[0][1].replace(" ", "").lower(), lines[1:]
        if header not in RATE_UNITS:
            raise ConfigError(f"trace = {name!r}: its header is {header!r}, must be {' or '.join(RATE_UNITS)}")
    if not lines:
        raise ConfigError(f"trace = {name!r}: holds no numbers")
    if "," in lines[0][1]:
        return _piecewise(lines, name, latency_seconds, header)
    return _packets(lines, name, latency_seconds)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def _piecewise(lines: list[tuple[int, str]], name: str, latency_seconds: float, header: str) -> PiecewiseLink:
    rows = _rows(lines, name, header or BITS)
    fastest = max(rate for _, rate in rows)
    if fastest == 0.0:
        raise ConfigError(f"trace = {name!r}: every rate is 0, at least one must be > 0")
    _check_unit(fastest, name, header)
    unit = RATE_UNITS[header or BITS]
    starts, period = _starts(rows)
    return PiecewiseLink(starts, tuple(unit * rate for _, rate in rows), period, latency_seconds)


def _check_unit(fastest: float, name: str, header: str) -> None:
    """Refuse a trace whose fastest rate shows that it was written in the other unit."""
    if header == MEGABITS and fastest > MOST_MBPS:
        raise ConfigError(f"trace = {name!r}: rates up to {fastest:g} Mbit/s; if these are bit/s, its header is {BITS}")
    if header != MEGABITS and fastest < (LEAST_BPS if header else LEAST_BPS_UNSAID):
        raise ConfigError(
            f"trace = {name!r}: no rate above {fastest:g} bit/s; if these are Mbit/s, begin the file with a line "
            f"{MEGABITS}" + ("" if header else f", otherwise with {BITS}")
        )


def _rows(lines: list[tuple[int, str]], name: str, columns: str) -> list[tuple[float, float]]:
    """Return (second, value) of every line; seconds rise, values are not negative."""
    rows: list[tuple[float, float]] = []
    for number, line in lines:
        try:
            second, value = (float(cell) for cell in line.split(","))
        except ValueError:
            raise ConfigError(f"trace = {name!r}: line {number} is {line!r}, must be {columns}") from None
        if not (math.isfinite(second) and 0.0 <= value < math.inf):
            raise ConfigError(f"trace = {name!r}: line {number} is {line!r}, must be finite with a rate >= 0")
        if rows and second <= rows[-1][0]:
            raise ConfigError(f"trace = {name!r}: line {number}: seconds must rise, {second:g} does not")
        rows.append((second, value))
    return rows


def _starts(rows: list[tuple[float, float]]) -> tuple[tuple[float, ...], float]:
    """Return when each piece begins, counted from the first, and the seconds after which all repeats."""
    starts = tuple(second - rows[0][0] for second, _ in rows)
    tail = starts[-1] - starts[-2] if len(starts) > 1 else 1.0
    return starts, starts[-1] + tail


def _packets(lines: list[tuple[int, str]], name: str, latency_seconds: float) -> PacketLink:
    milliseconds: list[int] = []
    for number, line in lines:
        if not (line.isascii() and line.isdecimal()):
            raise ConfigError(f"trace = {name!r}: line {number} is {line!r}, must be a whole millisecond >= 0")
        if milliseconds and int(line) < milliseconds[-1]:
            raise ConfigError(f"trace = {name!r}: line {number}: milliseconds must not fall, {line} does")
        milliseconds.append(int(line))
    if milliseconds[-1] == 0:
        raise ConfigError(f"trace = {name!r}: the last millisecond is 0, must be > 0")
    return PacketLink(tuple(ms / 1000.0 for ms in milliseconds), latency_seconds)
