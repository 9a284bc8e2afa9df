"""Links: how long a number of bytes takes, in closed form.

    seconds = latency + the smallest t with  integral of rate from start to start + t  =  8 * nbytes

Virtual seconds come from sizes and rates alone, never from this machine's clock. Nothing is queued: a link
serves one transfer at a time, which is what one client does in a round. An empty transfer does not happen and
takes 0 s. Files are read in `adagq.simulation.fleet.traces`.
"""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Protocol, Self

from adagq.core.seeds import generator

PACKET_BYTES = 1500  # what one line of a mahimahi trace delivers


class Link(Protocol):
    """One direction between one client and the server."""

    @property
    def latency_seconds(self) -> float:
        """Seconds before the first byte arrives."""
        ...

    def seconds(self, nbytes: float, start: float = 0.0, round: int = 0) -> float:
        """Return how long `nbytes` take when sending begins at second `start` of the run, in this round."""
        ...

    def scaled(self, factor: float) -> "Link":
        """Return this link with every rate multiplied by `factor`."""
        ...


@dataclass(frozen=True, slots=True)
class ConstantLink:
    """One rate for ever; `math.inf` is a free link.

    >>> ConstantLink(rate_bps=8e6).seconds(3_000_000)
    3.0
    """

    rate_bps: float
    latency_seconds: float = 0.0

    def seconds(self, nbytes: float, start: float = 0.0, round: int = 0) -> float:
        return self.latency_seconds + 8.0 * nbytes / self.rate_bps if nbytes > 0 else 0.0

    def scaled(self, factor: float) -> Self:
        return replace(self, rate_bps=self.rate_bps * factor)


FREE = ConstantLink(math.inf)


@dataclass(frozen=True, slots=True)
class RoundLink:
    """A new rate every round: log-normal around the mean, `rate = mean * exp(spread * z - spread^2 / 2)`.

    >>> link = RoundLink(mean_bps=8e6, spread=0.5, seed=1)
    >>> link.seconds(1_000_000, round=1) == link.seconds(1_000_000, start=99.0, round=1)
    True
    >>> link.seconds(1_000_000, round=1) == link.seconds(1_000_000, round=2)
    False
    """

    mean_bps: float
    spread: float
    seed: int
    latency_seconds: float = 0.0

    def rate_bps(self, round: int) -> float:
        """Return the rate of one round."""
        z = generator(self.seed, "rate", round).standard_normal()
        return self.mean_bps * math.exp(self.spread * z - self.spread**2 / 2)

    def seconds(self, nbytes: float, start: float = 0.0, round: int = 0) -> float:
        return self.latency_seconds + 8.0 * nbytes / self.rate_bps(round) if nbytes > 0 else 0.0

    def scaled(self, factor: float) -> Self:
        return replace(self, mean_bps=self.mean_bps * factor)


@dataclass(frozen=True)
class PiecewiseLink:
    """Rates that hold for a while: `rates_bps[j]` from `starts[j]` on; all again after `period` seconds.

    1 Mbyte in the first second of every two, nothing in the other: the second megabyte waits for its turn.

    >>> link = PiecewiseLink(starts=(0.0, 1.0), rates_bps=(8e6, 0.0), period=2.0)
    >>> link.seconds(1_000_000), link.seconds(2_000_000), link.seconds(500_000, start=1.5)
    (1.0, 3.0, 1.0)
    """

    starts: tuple[float, ...]  # rising, from 0
    rates_bps: tuple[float, ...]  # not negative, not all 0
    period: float
    latency_seconds: float = 0.0

    @classmethod
    def drawn(
        cls, mean_bps: float, spread: float, interval_seconds: float, seed: int, intervals: int = 1024
    ) -> "PiecewiseLink":
        """Return log-normal rates around the mean, a new one every interval; `intervals` of them, in turn."""
        z = generator(seed, "rates").standard_normal(intervals)
        rates = tuple(mean_bps * math.exp(spread * float(x) - spread**2 / 2) for x in z)
        starts = tuple(j * interval_seconds for j in range(intervals))
        return cls(starts, rates, intervals * interval_seconds)

    @cached_property
    def _sent(self) -> tuple[float, ...]:
        """Bits sent by the start of each piece, and by the end of the period."""
        ends = (*self.starts[1:], self.period)
        pieces = (rate * (end - begin) for rate, begin, end in zip(self.rates_bps, self.starts, ends, strict=True))
        return tuple(accumulate(pieces, initial=0.0))

    def seconds(self, nbytes: float, start: float = 0.0, round: int = 0) -> float:
        if nbytes <= 0:
            return 0.0
        offset = start % self.period
        piece = bisect_right(self.starts, offset) - 1
        bits = 8.0 * nbytes + self._sent[piece] + self.rates_bps[piece] * (offset - self.starts[piece])
        # The bits now count from the beginning of this lap: whole laps first, then the piece of the last bit.
        lap_bits = self._sent[-1]
        laps = max(0, math.ceil(bits / lap_bits) - 1)
        bits = min(bits - laps * lap_bits, lap_bits)
        finish = laps * self.period
        if bits > 0.0:
            piece = bisect_left(self._sent, bits) - 1  # sent[piece] < bits <= sent[piece + 1]: its rate is not 0
            finish += self.starts[piece] + (bits - self._sent[piece]) / self.rates_bps[piece]
        return self.latency_seconds + max(0.0, finish - offset)

    def scaled(self, factor: float) -> Self:
        return replace(self, rates_bps=tuple(rate * factor for rate in self.rates_bps))


@dataclass(frozen=True, slots=True)
class PacketLink:
    """Delivery opportunities of one packet each (mahimahi): `moments` in seconds, repeating after the last.

    >>> link = PacketLink(moments=(0.001, 0.001, 0.004))
    >>> [round(link.seconds(n), 6) for n in (1, 3000, 3001, 4501)]
    [0.001, 0.001, 0.004, 0.005]
    """

    moments: tuple[float, ...]  # not falling, the last one > 0
    latency_seconds: float = 0.0
    packet_bytes: float = PACKET_BYTES

    def seconds(self, nbytes: float, start: float = 0.0, round: int = 0) -> float:
        if nbytes <= 0:
            return 0.0
        period = self.moments[-1]
        offset = start % period
        packets = math.ceil(nbytes / self.packet_bytes)
        more_laps, index = divmod(bisect_left(self.moments, offset) + packets - 1, len(self.moments))
        return self.latency_seconds + max(0.0, more_laps * period + self.moments[index] - offset)

    def scaled(self, factor: float) -> Self:
        return replace(self, packet_bytes=self.packet_bytes * factor)
