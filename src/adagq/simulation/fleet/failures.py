"""When a client fails: drawn by name for every round and attempt, or read from a file of on and off times.

    leave_round     gone for ever from this round on
    availability    the chance that it is there at all when a round begins
    drop_rate       the chance that it fails in the round; at which step is drawn too, each as likely
    presence        seconds of the run at which it is there; a step during which it goes away is lost

All four may be combined. The server does not know of them; `simulation/clock.py` has how long it waits.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

from adagq.core.seeds import generator

Step = Literal["report", "training", "upload"]  # the one that never ends
STEPS: tuple[Step, ...] = ("report", "training", "upload")


@dataclass(frozen=True, slots=True)
class Presence:
    """On and off in turn: `on[j]` holds from `starts[j]`; all again after `period` seconds.

    There for the first 60 of every 100 seconds:

    >>> presence = Presence(starts=(0.0, 60.0), on=(True, False), period=100.0)
    >>> [presence.leaves(second) for second in (0.0, 59.0, 60.0, 130.0)]
    [60.0, 60.0, 60.0, 160.0]
    """

    starts: tuple[float, ...]  # rising, from 0
    on: tuple[bool, ...]
    period: float

    def leaves(self, second: float) -> float:
        """Return when a client that is asked at `second` goes away: then, if it is away already; inf if never."""
        if all(self.on):
            return math.inf
        lap, offset = divmod(second, self.period)
        piece = bisect_right(self.starts, offset) - 1
        if not self.on[piece]:
            return second
        for later in range(piece + 1, piece + 1 + len(self.on)):
            laps, index = divmod(later, len(self.on))
            if not self.on[index]:
                return (lap + laps) * self.period + self.starts[index]
        return math.inf


@dataclass(frozen=True, slots=True)
class Reliability:
    """How far one client can be counted on.

    >>> flaky = Reliability(drop_rate=0.5, seed=1)
    >>> flaky.fails(round=1) == flaky.fails(round=1), Reliability().fails(round=1)
    (True, None)
    """

    drop_rate: float = 0.0
    availability: float = 1.0
    leave_round: int | None = None
    presence: Presence | None = None
    seed: int = 0

    def fails(self, round: int, attempt: int = 0) -> Step | None:
        """Return the step at which the client fails in this attempt at a round; None if it does not."""
        if self.leave_round is not None and round >= self.leave_round:
            return "report"
        if self.availability < 1.0 and generator(self.seed, "away", round, attempt).random() >= self.availability:
            return "report"
        if self.drop_rate > 0.0:
            draw = generator(self.seed, "drop", round, attempt)
            if draw.random() < self.drop_rate:
                return STEPS[int(draw.integers(len(STEPS)))]
        return None

    def leaves(self, second: float) -> float:
        """Return the second of the run at which a client that is asked now goes away."""
        return math.inf if self.presence is None else self.presence.leaves(second)


ALWAYS = Reliability()
