"""How long a round waits: a factor times what it is expected to need, once there is something to expect it from.

    updates by   factor * max(what recent rounds needed, what these tasks take) + what longer downloads take
    reports by   factor * max(last reports of recent rounds); half of that while there were none

What a round needed is its last accepted update by the server's own clock, less the time in which all waited for a
report that did not come or does not count: a client can stretch a deadline by being slow, not by what it says, nor by
hanging. Reports and updates beyond OUTLIER times the round's median do not count, nor do those of a client that works
for that much longer, so that a much slower client is left out rather than waited for. What tasks take follows from the
last round's seconds: more epochs or more bytes than then are the server's own doing. A download larger than usual (the
whole model for a client that comes back) gets the time that its size takes. If a report is missing, all began to encode
later than usual, and updates get that much longer. All of it is pure.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from adagq.core.codec import levels_of
from adagq.core.messages import Receipt, Sync, Task

NO_REPORTS: Final[Mapping[int, float]] = MappingProxyType({})
RECENT = 5  # rounds
OUTLIER = 10.0  # times the median: such a straggler does not stretch the deadline


@dataclass(frozen=True, slots=True)
class Pace:
    """What recent rounds needed; all that a deadline is derived from."""

    arrivals: tuple[float, ...] = ()  # seconds until the last accepted update, a round each
    reports: tuple[float, ...] = ()  # seconds until the last report
    download_bytes: float = 0.0  # of most clients in the last round, as sent
    download_seconds: float = 0.0  # of the slowest
    epochs: float = 0  # of the last tasks

    def after(
        self,
        syncs: Sequence[Sync],
        tasks: Sequence[Task],
        receipts: Sequence[Receipt],
        report_seconds: Mapping[int, float] = NO_REPORTS,
        decided_seconds: float = 0.0,
    ) -> "Pace":
        """Return the pace after a round that closed with these receipts.

        `report_seconds` are those of the reports that were waited for, by client, and `decided_seconds` how long that
        took.
        """
        # A slow client's report delays all arrivals alike: seconds of work alone show whose it was.
        longest = _longest(receipt.busy_seconds for receipt in receipts) or math.inf
        slow = {receipt.client for receipt in receipts if receipt.busy_seconds > longest}
        reported = usual_maximum(seconds for client, seconds in report_seconds.items() if client not in slow)
        idle_seconds = max(decided_seconds - reported, 0.0) if reported > 0.0 else 0.0
        last = usual_maximum(max(receipt.busy_seconds, _arrival(receipt) - idle_seconds) for receipt in receipts)
        if last <= 0.0:
            return self
        return Pace(
            arrivals=(*self.arrivals, last)[-RECENT:],
            reports=(*self.reports, *([reported] if reported > 0.0 else []))[-RECENT:],
            download_bytes=median(sync.nbytes for sync in syncs),
            download_seconds=usual_maximum(receipt.download_seconds for receipt in receipts),
            epochs=max(task.epochs for task in tasks),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Pace":
        return cls(**data | {name: tuple(data[name]) for name in ("arrivals", "reports")})


class Deadlines(NamedTuple):
    """Seconds since the round began; `math.inf` for none."""

    reports: float
    updates: float


@dataclass(frozen=True, slots=True)
class DeadlinePolicy:
    """The rule: `seconds` if set, else derived from the pace; `first_seconds` while there is none.

    >>> DeadlinePolicy().deadlines(Pace(arrivals=(10.0, 12.0)), syncs=())
    Deadlines(reports=9.0, updates=18.0)
    """

    seconds: float | None = None
    factor: float = 1.5
    first_seconds: float = math.inf

    def deadlines(
        self, pace: Pace, syncs: Sequence[Sync], expected_seconds: float = 0.0, missing_reports: bool = False
    ) -> Deadlines:
        """Return when a round that begins with these syncs stops waiting."""
        extra = _longer_download(pace, syncs)
        if self.seconds is not None:
            updates = self.seconds
        elif pace.arrivals and math.isfinite(extra):
            updates = self.factor * max(*pace.arrivals, expected_seconds) + extra
        else:
            updates = self.first_seconds
        usual, reports = 0.0, updates / 2
        if pace.reports and math.isfinite(extra):
            usual = max(pace.reports) + extra
            reports = min(updates, self.factor * max(pace.reports) + extra)
        if missing_reports and self.seconds is None:
            updates += max(reports - usual, 0.0)
        return Deadlines(reports, updates)


def expected_seconds(pace: Pace, tasks: Sequence[Task], receipts: Sequence[Receipt]) -> float:
    """Return when the last of these tasks would arrive if all went as in the last round; 0 if that is not known."""
    last = {receipt.client: receipt for receipt in receipts}
    return usual_maximum(_expected(task, last[task.client], pace.epochs) for task in tasks if task.client in last)


def usual_maximum(seconds: Iterable[float]) -> float:
    """Return the largest number that is no outlier; 0 if there is none.

    >>> usual_maximum([1.0, 2.0, 3.0, 500.0])
    3.0
    """
    known = [value for value in seconds if math.isfinite(value)]
    longest = _longest(known)
    return max((value for value in known if value <= longest), default=0.0)


def _longest(seconds: Iterable[float]) -> float:
    """Return the seconds beyond which a client is an outlier; 0 if nothing is known."""
    known = [value for value in seconds if math.isfinite(value)]
    return OUTLIER * median(known) if known else 0.0


def _expected(task: Task, last: Receipt, epochs: float) -> float:
    more_epochs = task.epochs / epochs if epochs else 1.0
    more_bytes = 1.0
    if task.budget_bytes is not None:
        more_bytes = task.budget_bytes / max(last.upload_bytes, 1)
    elif (levels := levels_of(task.codec)) and last.levels > 0:
        more_bytes = (1 + levels.bit_length()) / (1 + last.levels.bit_length())  # with the sign
    return last.download_seconds + more_epochs * last.compute_seconds + more_bytes * last.upload_seconds


def _arrival(receipt: Receipt) -> float:
    return receipt.arrival_seconds if math.isfinite(receipt.arrival_seconds) else receipt.busy_seconds


def _longer_download(pace: Pace, syncs: Sequence[Sync]) -> float:
    """Return the seconds that the largest sync takes beyond last round's downloads; inf if nothing compares."""
    largest = max((sync.nbytes for sync in syncs), default=0)
    if largest <= pace.download_bytes:
        return 0.0
    if pace.download_bytes <= 0.0:
        return math.inf
    return pace.download_seconds * (largest / pace.download_bytes - 1.0)
