"""What the paper says, beside what was measured here. numbers.toml has the sentences, their kinds and numbers.

Orderings (`less`, `more`, `rises`, `missed`) hold or do not; for numbers both are shown and the reader judges.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from rich import box
from rich.table import Table

from adagq.core.errors import ConfigError
from adagq.paper.cells import Cell, Number
from adagq.report.run import number
from adagq.report.summary import by_seed
from adagq.report.units import digits, percent, seconds_text

Claim = Mapping[str, Any]
HEADINGS = ("the paper says", "in", "its number", "ours", "holds")
MARKS = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True)
class Finding:
    """One sentence of the paper in one cell."""

    says: str
    cell: str
    paper: str
    ours: str
    value: Number = None
    holds: bool | None = None  # None: a number, or not run


def check_claims(claims: Sequence[Claim], cells: Mapping[str, Cell]) -> list[Finding]:
    """Return a finding for every claim and cell that it speaks of."""
    findings: list[Finding] = []
    for claim in claims:
        if claim["kind"] not in KINDS:
            raise ConfigError(f"claim {claim['says']!r}: kind = {claim['kind']!r}; known: {', '.join(KINDS)}")
        chosen = [cells[key] for key in claim.get("cells", cells) if key in cells]
        findings += KINDS[claim["kind"]](claim, chosen)
    return findings


def claim_lines(findings: Sequence[Finding]) -> list[str]:
    """Return the findings as a GitHub table; nothing if there are none."""
    if not findings:
        return []
    rows = [HEADINGS, ("---",) * len(HEADINGS), *_rows(findings)]
    return ["", "## What the paper says", "", *(f"| {' | '.join(row)} |" for row in rows)]


def claims_table(findings: Sequence[Finding], title: str) -> Table:
    """Return the findings as a table for the terminal."""
    table = Table(*HEADINGS, title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for row in _rows(findings):
        table.add_row(*row)
    return table


def _rows(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Return the texts of each finding; a sentence stands once, beside its first cell."""
    before = ["", *(found.says for found in findings)]
    return [
        ("" if found.says == said else found.says, found.cell, found.paper, found.ours, MARKS[found.holds])
        for found, said in zip(findings, before, strict=False)
    ]


def findings_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [asdict(found) for found in findings]


def _value(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    found = []
    for cell in cells:
        value = cell.quantity(claim["method"], claim["quantity"])
        text = _state(cell, claim["method"]) if value is None else _text(claim["quantity"], value)
        found.append(Finding(claim["says"], cell.key, _paper(claim), text, value))
    return found


def _saved(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    return _against(claim, cells, lambda ratio: 1 - ratio, percent)


def _ratio(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    return _against(claim, cells, lambda ratio: ratio, lambda value: f"{digits(value)} times")


def _against(
    claim: Claim, cells: Sequence[Cell], value_of: Callable[[float], float], show: Callable[[float], str]
) -> list[Finding]:
    """Compare a method with the claim's one rival."""
    found = []
    for cell in cells:
        method, rival = claim["method"], _rivals(claim, cell)[0]
        ratio = cell.ratio(method, rival, claim["quantity"])
        if ratio is None:
            unknown = method if cell.quantity(method, claim["quantity"]) is None else rival
            found.append(Finding(claim["says"], cell.key, _paper(claim), _state(cell, unknown)))
            continue
        said = f"{show(value_of(ratio))}: {_numbers(cell, [method, rival], claim['quantity'])}"
        found.append(Finding(claim["says"], cell.key, _paper(claim), said, value_of(ratio)))
    return found


def _less(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    """Is the method below every rival? One that missed the target is beaten by all that reached it."""
    return [_ordered(claim, cell, -1) for cell in cells]


def _more(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    """Is the method above every rival? What a method would have needed that missed the target is more than any."""
    return [_ordered(claim, cell, 1) for cell in cells]


def _ordered(claim: Claim, cell: Cell, sign: int) -> Finding:
    method, quantity = claim["method"], claim["quantity"]
    rivals = [rival for rival in _rivals(claim, cell) if rival]
    verdicts = [_beats(cell, method, rival, quantity, sign) for rival in rivals]
    holds = False if False in verdicts else None if None in verdicts or not verdicts else True
    said = cell.absent or _numbers(cell, [method, *rivals], quantity)
    return Finding(claim["says"], cell.key, "", said, cell.quantity(method, quantity), holds)


def _beats(cell: Cell, method: str, rival: str, quantity: str, sign: int) -> bool | None:
    """Return whether the method is on the claimed side of one rival; None where one has not run or both missed.

    Where one of them reached the target with more seeds, the seeds that both have must say the same, else it is open.
    """
    own, other = cell.record(method), cell.record(rival)
    if own is None or other is None:
        return None
    ratio = cell.ratio(method, rival, quantity)
    measured = None if ratio is None else (ratio > 1 if sign > 0 else ratio < 1)
    if own["reached"] == other["reached"]:
        return measured
    by_reach = (own["reached"] < other["reached"]) == (sign > 0)
    return by_reach if measured in (None, by_reach) else None


def _numbers(cell: Cell, methods: Sequence[str], quantity: str) -> str:
    values = {method: cell.quantity(method, quantity) for method in methods}
    return ", ".join(
        _state(cell, method) if value is None else f"{method} {_text(quantity, value)}"
        for method, value in values.items()
    )


def _missed(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    found = []
    for cell in cells:
        record = cell.record(claim["method"])
        holds = None if record is None else record["reached"] < 1
        found.append(Finding(claim["says"], cell.key, "", _state(cell, claim["method"]), holds=holds))
    return found


def _rises(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    values = [cell.quantity(claim["method"], claim["quantity"]) for cell in cells]
    known = [value for value in values if value is not None]
    holds = None if len(known) < len(values) or len(known) < 2 else all(a < b for a, b in pairwise(known))
    said = ", ".join("–" if value is None else _text(claim["quantity"], value) for value in values)
    return [Finding(claim["says"], ", ".join(cell.key for cell in cells), "", said, holds=holds)]


def _norms(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    """How far the norm fell in the first fifth of the rounds, and in the rest."""
    found = []
    for cell in cells:
        runs = by_seed(row for row in cell.rows if row["method"] == claim["method"]).get(claim["method"], {})
        norms = [[value for row in rows if (value := number(row.get("norm")))] for rows in runs.values()]
        norms = [each for each in norms if len(each) > 1]
        if not norms:
            found.append(Finding(claim["says"], cell.key, "", _state(cell, claim["method"])))
            continue
        early = fmean(each[len(each) // 5] / each[0] for each in norms)
        late = fmean(each[-1] / each[len(each) // 5] for each in norms)
        said = f"to {percent(early)} of the first in a fifth of the rounds, then to {percent(late)} of that"
        found.append(Finding(claim["says"], cell.key, "", said, early, early < late))
    return found


KINDS: Mapping[str, Callable[[Claim, Sequence[Cell]], list[Finding]]] = {
    "value": _value,
    "saved": _saved,
    "ratio": _ratio,
    "less": _less,
    "more": _more,
    "missed": _missed,
    "rises": _rises,
    "norms": _norms,
}


def _rivals(claim: Claim, cell: Cell) -> list[str]:
    """Return the claim's rivals; "best" is the fastest published baseline, empty where none reached the target."""
    return [(cell.fastest_baseline() or "") if rival == "best" else rival for rival in claim["rivals"]]


def _state(cell: Cell, method: str) -> str:
    """Return in words why there is no number."""
    if cell.absent or (record := cell.record(method)) is None:
        return cell.absent or (f"{method} not run" if method else "no baseline reached the target")
    if record["reached"] == 1:
        return f"{method} reached the target"
    share = "" if record["reached"] == 0 else " with some seeds"
    return f"{method} missed the target{share} ({percent(record['missed']['best_accuracy']['mean'])})"


def _paper(claim: Claim) -> str:
    paper = claim.get("paper")
    if paper is None:
        return ""
    show = percent if claim["kind"] == "saved" else lambda value: _text(claim["quantity"], value)
    return " to ".join(show(end) for end in (paper if isinstance(paper, list) else [paper]))


def _text(quantity: str, value: float) -> str:
    if quantity.endswith("seconds"):
        return seconds_text(value)
    if quantity == "accuracy":
        return percent(value)
    return f"{digits(value)} {'Gbit' if quantity == 'gigabits' else quantity}"
