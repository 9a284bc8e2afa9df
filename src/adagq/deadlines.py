"""How long a round waits: a factor times what recent rounds needed, once there are any.

    updates by   factor * growth * max over recent rounds of the last arrival + what longer downloads take
    reports by   factor * max over recent rounds of the last report, at most half of that

Arrivals are those of accepted updates by the server's own clock, so a client can stretch them by being slow, not by
what it says, and an arrival beyond OUTLIER times the round's median does not count. `growth` is how much more the
clients are asked for than last time (epochs, bytes), since that is the server's own doing. A download larger than
usual (the whole model for a client that comes back) gets the time that its size takes. All of it is pure.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

from adagq.messages import Receipt, Sync, Task

RECENT = 5  # rounds
OUTLIER = 10.0  # times the median arrival: such a straggler does not stretch the deadline
MAX_GROWTH = 5.0


@dataclass(frozen=True, slots=True)
class Pace:
    """What recent rounds needed; all that a deadline is derived from."""

    arrivals: tuple[float, ...] = ()  # seconds until the last accepted update, a round each
    reports: tuple[float, ...] = ()  # seconds until the last report
    download_bytes: float = 0.0  # of most clients in the last round, as sent
    download_seconds: float = 0.0  # of the slowest
    epochs: int = 0  # of the last tasks

    def after(
        self, syncs: Sequence[Sync], tasks: Sequence[Task], receipts: Sequence[Receipt], report_seconds: float
    ) -> "Pace":
        """Return the pace after a round that closed with these receipts."""
        arrivals = sorted(filter(math.isfinite, map(_arrival, receipts)))
        if not arrivals:
            return self
        usual = OUTLIER * median(arrivals)
        last = max(arrival for arrival in arrivals if arrival <= usual)
        known = (report_seconds,) if math.isfinite(report_seconds) else ()
        return Pace(
            arrivals=(*self.arrivals, last)[-RECENT:],
            reports=(*self.reports, *known)[-RECENT:],
            download_bytes=median(sync.nbytes for sync in syncs),
            download_seconds=max(receipt.download_seconds for receipt in receipts),
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
class Patience:
    """The rule: `seconds` if set, else derived from the pace; `first_seconds` while there is none.

    >>> Patience().deadlines(Pace(arrivals=(10.0, 12.0)), syncs=())
    Deadlines(reports=9.0, updates=18.0)
    """

    seconds: float | None = None
    factor: float = 1.5
    first_seconds: float = math.inf

    def deadlines(self, pace: Pace, syncs: Sequence[Sync], growth: float = 1.0) -> Deadlines:
        """Return when a round that begins with these syncs stops waiting."""
        if self.seconds is not None:
            updates = self.seconds
        else:
            extra = _longer_download(pace, syncs)
            known = bool(pace.arrivals) and math.isfinite(extra)
            updates = self.factor * growth * max(pace.arrivals) + extra if known else self.first_seconds
        reports = updates / 2
        if pace.reports and math.isfinite(extra := _longer_download(pace, syncs)):
            reports = min(reports, self.factor * max(pace.reports) + extra)
        return Deadlines(reports, updates)


def growth(pace: Pace, tasks: Sequence[Task], receipts: Sequence[Receipt]) -> float:
    """Return how many times more than in the last round the clients are asked for, at least 1."""
    ratios = [task.epochs / pace.epochs for task in tasks] if pace.epochs else []
    sent = {receipt.client: receipt for receipt in receipts}
    for task in tasks:
        last, levels = sent.get(task.client), getattr(task.codec, "levels", 0)
        if last is None:
            continue
        if task.budget_bytes is not None:
            ratios.append(task.budget_bytes / max(last.upload_bytes, 1))
        elif levels and last.levels > 0:
            ratios.append(levels.bit_length() / last.levels.bit_length())
    return min(max(ratios, default=1.0), MAX_GROWTH) if max(ratios, default=1.0) > 1.0 else 1.0


def _arrival(receipt: Receipt) -> float:
    if math.isfinite(receipt.arrival_seconds):
        return receipt.arrival_seconds
    return receipt.download_seconds + receipt.compute_seconds + receipt.upload_seconds


def _longer_download(pace: Pace, syncs: Sequence[Sync]) -> float:
    """Return the seconds that the largest sync takes beyond last round's downloads; inf if nothing compares."""
    largest = max((sync.nbytes for sync in syncs), default=0)
    if largest <= pace.download_bytes:
        return 0.0
    if pace.download_bytes <= 0.0:
        return math.inf
    return pace.download_seconds * (largest / pace.download_bytes - 1.0)
