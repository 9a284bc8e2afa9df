"""Rates from measured seconds.

What a server sees of a transfer is never the link alone: polling, process starts and, downwards, the difference of
two clocks come on top. They do not depend on the size, so over messages of different sizes

    seconds = a + bytes / rate

separates the two. The line is Theil and Sen's, the median of the slopes between all pairs of transfers: no single
hiccup moves it. Messages without a payload are on it as well, at zero bytes. Until sizes differ enough there is no
line; then a transfer took what it needed beyond a message without payload: next to nothing if it is small, so that
controllers dare to send more and the line appears.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import Any, Final

REMEMBERED: Final = 24  # transfers: a link that changed is forgotten after so many
APART: Final = 2.0  # two sizes tell something about the rate if one is so many times the other …
LEAST_BYTES: Final = 65_536  # … and they differ by so much: less takes less time than looking for it

LEAST_SECONDS: Final = 1e-4  # no transfer takes no time


@dataclass
class Link:
    """One direction of one node. `known_bps` (bytes per second) comes from the node's own config and ends all doubt."""

    known_bps: float | None = None
    fitted_bps: float | None = None
    transfers: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def saw(self, nbytes: int, seconds: float) -> None:
        """Note one transfer."""
        self.transfers.append((nbytes, seconds))
        self.fitted_bps = self._fit() or self.fitted_bps

    @property
    def rate_bps(self) -> float | None:
        """Bytes per second; None while it is not known.

        >>> link = Link()
        >>> for nbytes, seconds in ((0, 3.1), (1_000_000, 4.1), (500_000, 3.6), (400_000, 9.5)):
        ...     link.saw(nbytes, seconds)
        >>> round(link.rate_bps)
        1000000
        """
        return self.fitted_bps if self.known_bps is None else self.known_bps

    def _fit(self) -> float | None:
        slopes = [
            (late - early) / (large - small)
            for (small, early), (large, late) in combinations(sorted(self.transfers), 2)
            if large >= APART * small and large - small >= LEAST_BYTES
        ]
        if not slopes:
            return None
        slope = median(slopes)
        return 1 / slope if slope > 0 else None

    def seconds(self, nbytes: int, measured: float) -> float:
        """Return what the link took for `nbytes` that were under way for `measured` seconds in all.

        >>> link = Link()
        >>> link.saw(0, 3.0)
        >>> link.seconds(100_000, measured=3.5), link.seconds(1000, measured=3.5)
        (0.5, 0.0001)
        """
        rate = self.rate_bps
        if rate is not None:
            return nbytes / rate
        small = [seconds for size, seconds in self.transfers if size < LEAST_BYTES]
        known = nbytes >= LEAST_BYTES and small
        return max(measured - median(small), LEAST_SECONDS) if known else LEAST_SECONDS

    def to_json(self) -> dict[str, Any]:
        return {"known_bps": self.known_bps, "fitted_bps": self.fitted_bps, "transfers": list(self.transfers)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Link":
        link = cls(data["known_bps"], data["fitted_bps"])
        link.transfers.extend((int(nbytes), float(seconds)) for nbytes, seconds in data["transfers"])
        return link
