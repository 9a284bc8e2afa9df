"""Who is left out for a while: clients whose messages had to be refused or cut to size, round after round.

A round with such an incident counts one strike, and TENTHS clean ones take one away. After `exclude_after` strikes a
client is not asked for PAUSE_ROUNDS rounds. Then it may come back, a tenth short of the next exclusion, which lasts
twice as long, up to LONGEST_PAUSE. A client without strikes has a clean record again. Slow or lost clients are no
offenders: they cost time, and the deadline deals with them. All of it is pure.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from adagq.core.messages import Incident

TENTHS: Final = 10
PAUSE_ROUNDS, LONGEST_PAUSE = 10, 640
OFFENCES: Final = ("refused", "clamped")


@dataclass(frozen=True, slots=True)
class Record:
    """What is held against one client."""

    tenths: int = 0  # of a strike
    exclusions: int = 0
    until: int = 0  # the last round that it is left out of


@dataclass(frozen=True, slots=True)
class Exclusions:
    """The records of clients that have one.

    >>> bad = [Incident(3, 1, "refused", "…")]
    >>> after = Exclusions().after(1, bad, asked=[2, 3], limit=1)
    >>> after.admitted([2, 3], round=2, least=1), after.admitted([2, 3], round=12, least=1)
    ((2,), (2, 3))
    """

    records: dict[int, Record] = field(default_factory=dict)

    def admitted(self, present: Sequence[int], round: int, least: int) -> tuple[int, ...]:
        """Return the clients that take part; those nearest to their return too if fewer than `least` are left."""
        if not self.records:
            return tuple(present)
        away = sorted((self.records[client].until, client) for client in present if self._is_out(client, round))
        needed = max(0, least - (len(present) - len(away)))
        out = {client for _, client in away[needed:]}
        return tuple(client for client in present if client not in out)

    def after(self, round: int, incidents: Iterable[Incident], asked: Collection[int], limit: int) -> "Exclusions":
        """Return the records after a closed round; `limit` strikes exclude a client."""
        offenders = {incident.client for incident in incidents if incident.kind in OFFENCES}
        records = dict(self.records)
        for client in sorted(offenders.union(asked)):
            record = _judged(records.pop(client, Record()), client in offenders, round, limit)
            if record.tenths:
                records[client] = record
        return Exclusions(records)

    def excluded_in(self, round: int) -> list[tuple[int, int]]:
        """Return (client, rounds) of those whose pause begins after this round."""
        pauses = [(client, _pause(record.exclusions), record.until) for client, record in self.records.items()]
        return [(client, pause) for client, pause, until in sorted(pauses) if pause and until - pause == round]

    def to_json(self) -> dict[str, Any]:
        return {str(client): [one.tenths, one.exclusions, one.until] for client, one in self.records.items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Exclusions":
        return cls({int(client): Record(*numbers) for client, numbers in data.items()})

    def _is_out(self, client: int, round: int) -> bool:
        return client in self.records and round <= self.records[client].until


def _judged(record: Record, offended: bool, round: int, limit: int) -> Record:
    tenths = record.tenths + TENTHS if offended else max(record.tenths - 1, 0)
    if tenths < TENTHS * limit:
        return Record(tenths, record.exclusions, record.until)
    exclusions = record.exclusions + 1
    return Record(TENTHS * limit - 1, exclusions, round + _pause(exclusions))


def _pause(exclusions: int) -> int:
    """Return the rounds of the exclusion of this number; 0 for none.

    >>> [_pause(number) for number in (0, 1, 2, 3, 100)]
    [0, 10, 20, 40, 640]
    """
    return min(PAUSE_ROUNDS * 2 ** min(exclusions - 1, 20), LONGEST_PAUSE) if exclusions > 0 else 0
