"""Who failed and what was refused, method by method; nothing to show in a run in which all went well."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adagq.core.jsonl import read_lines
from adagq.report.run import Row

SHOWN = 20  # clients; incidents.jsonl has all


@dataclass(frozen=True)
class MethodIncidents:
    """Counts over all seeds and rounds; a client counts once a round."""

    method: str
    asked: int  # client-rounds
    failed: int
    refused: int
    repeated: int  # rounds that had to be tried again


@dataclass(frozen=True)
class ClientIncidents:
    """What was wrong with one client's messages, in the words of its first incident of this kind."""

    client: int
    kind: str
    count: int
    reason: str


def incident_counts(rows: Sequence[Row]) -> list[MethodIncidents]:
    """Return the methods' counts in the order of the rows; empty if nothing happened."""
    found: dict[str, MethodIncidents] = {}
    for row in rows:
        failed, refused = int(row.get("failed") or 0), int(row.get("refused") or 0)
        old = found.get(row["method"], MethodIncidents(row["method"], 0, 0, 0, 0))
        found[row["method"]] = MethodIncidents(
            method=old.method,
            asked=old.asked + int(row.get("clients") or 0) + failed + refused,
            failed=old.failed + failed,
            refused=old.refused + refused,
            repeated=old.repeated + (int(row.get("attempts") or 1) > 1),
        )
    return list(found.values()) if any(one.failed or one.refused for one in found.values()) else []


def client_incidents(run_dir: Path) -> list[ClientIncidents]:
    """Return who was refused, cut to size or left out, the most frequent first."""
    number: Counter[tuple[int, str]] = Counter()
    reasons: dict[tuple[int, str], str] = {}
    for line in read_lines(run_dir / "incidents.jsonl"):
        if line["kind"] in ("refused", "clamped", "excluded"):
            key = (int(line["client"]), str(line["kind"]))
            number[key] += 1
            reasons.setdefault(key, str(line["reason"]))
    return [ClientIncidents(*key, count, reasons[key]) for key, count in number.most_common(SHOWN)]
