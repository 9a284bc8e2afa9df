"""What the paper says, beside what was measured here. numbers.toml has the sentences, their kinds and numbers.

A verdict comes from paired differences (`paired`): "yes" and "no" where they are beyond the 95 % interval, "open" where
the data do not decide, as one seed never does. A share saved holds if ours is surely no smaller than the least that the
paper names; "similar" is within a tenth. `value` has no verdict: counts depend on the scale.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from adagq.core.errors import ConfigError
from adagq.paper.cells import Cell
from adagq.paper.findings import Finding
from adagq.paper.paired import ENOUGH, Paired, difference_side
from adagq.report.run import number
from adagq.report.summary import by_seed
from adagq.report.units import digits, percent, seconds_text

Claim = Mapping[str, Any]
SIMILAR = 0.1


def check_claims(claims: Sequence[Claim], cells: Mapping[str, Cell]) -> list[Finding]:
    """Return a finding for every claim and cell that it speaks of."""
    findings: list[Finding] = []
    for claim in claims:
        if claim["kind"] not in KINDS:
            raise ConfigError(f"claim {claim['says']!r}: kind = {claim['kind']!r}; known: {', '.join(KINDS)}")
        chosen = [cells[key] for key in claim.get("cells", cells) if key in cells]
        findings += KINDS[claim["kind"]](claim, chosen)
    return findings


def _value(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    found = []
    for cell in cells:
        value = cell.quantity(claim["method"], claim["quantity"])
        text = _state(cell, claim["method"]) if value is None else _text(claim["quantity"], value)
        found.append(Finding(claim["says"], cell.key, _paper(claim), text, value, judged=False))
    return found


def _saved(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    """Does the method save at least the smallest share that the paper names?"""
    least = min(claim["paper"]) if isinstance(claim["paper"], list) else claim["paper"]

    def saves(ratio: Paired) -> bool | None:
        return {-1: True, 0: None, 1: False}[ratio.side(1 - least)]

    return _against(claim, cells, lambda ratio: 1 - ratio, percent, saves)


def _ratio(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    """Are the two alike, within a tenth?"""

    def alike(ratio: Paired) -> bool | None:
        inside = (ratio.side(1 - SIMILAR), ratio.side(1 + SIMILAR))
        return True if inside == (1, -1) else False if inside in ((-1, -1), (1, 1)) else None

    return _against(claim, cells, lambda ratio: ratio, lambda value: f"{digits(value)} times", alike)


def _against(
    claim: Claim,
    cells: Sequence[Cell],
    value_of: Callable[[float], float],
    show: Callable[[float], str],
    verdict: Callable[[Paired], bool | None],
) -> list[Finding]:
    """Compare a method with the claim's one rival."""
    found = []
    for cell in cells:
        method, rival = claim["method"], _rivals(claim, cell)[0]
        compared = cell.compare(method, rival, claim["quantity"])
        if compared is None:
            unknown = method if cell.quantity(method, claim["quantity"]) is None else rival
            found.append(Finding(claim["says"], cell.key, _paper(claim), _state(cell, unknown)))
            continue
        value, error = value_of(compared.ratio), compared.error
        spread = "" if error is None else f" ± {show(error)}"
        said = f"{show(value)}{spread}: {_numbers(cell, [method, rival], claim['quantity'])}"
        found.append(Finding(claim["says"], cell.key, _paper(claim), said, value, verdict(compared), error))
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
    said = cell.absent or _numbers(cell, [method, *rivals], quantity) + _ratios(cell, method, rivals, quantity)
    return Finding(claim["says"], cell.key, "", said, cell.quantity(method, quantity), holds)


def _beats(cell: Cell, method: str, rival: str, quantity: str, sign: int) -> bool | None:
    """Return whether the method is on the claimed side of one rival; None where one has not run or both missed.

    Where one of them reached the target with more seeds, the seeds that both have must say the same, else it is open.
    Where both reached it alike, the pairs must decide.
    """
    own, other = cell.record(method), cell.record(rival)
    if own is None or other is None:
        return None
    compared = cell.compare(method, rival, quantity)
    if own["reached"] == other["reached"]:
        return None if compared is None or compared.side() == 0 else compared.side() == sign
    measured = None if compared is None else (compared.ratio > 1) == (sign > 0)
    by_reach = (own["reached"] < other["reached"]) == (sign > 0)
    if min(len(record["per_seed"]) for record in (own, other)) < ENOUGH:
        return None
    return by_reach if measured in (None, by_reach) else None


def _numbers(cell: Cell, methods: Sequence[str], quantity: str) -> str:
    values = {method: cell.quantity(method, quantity) for method in methods}
    return ", ".join(
        _state(cell, method) if value is None else f"{method} {_text(quantity, value)}"
        for method, value in values.items()
    )


def _ratios(cell: Cell, method: str, rivals: Sequence[str], quantity: str) -> str:
    """Return the method's ratio to each rival, with its standard error where there is one."""
    compared = {rival: found for rival in rivals if (found := cell.compare(method, rival, quantity)) is not None}
    known = [f"{found.text()} of {rival}" for rival, found in compared.items() if found.error is not None]
    return f"; {', '.join(known)}" if known else ""


def _missed(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    found = []
    for cell in cells:
        record = cell.record(claim["method"])
        sure = record is not None and len(record["per_seed"]) >= ENOUGH and record["reached"] in (0, 1)
        holds = record["reached"] == 0 if record is not None and sure else None
        found.append(Finding(claim["says"], cell.key, "", _state(cell, claim["method"]), holds=holds))
    return found


def _rises(claim: Claim, cells: Sequence[Cell]) -> list[Finding]:
    values = [cell.quantity(claim["method"], claim["quantity"]) for cell in cells]
    sides = [_rise(claim, *neighbours) for neighbours in pairwise(cells)]
    holds = None if 0 in sides or not sides else -1 not in sides
    said = ", ".join("–" if value is None else _text(claim["quantity"], value) for value in values)
    return [Finding(claim["says"], ", ".join(cell.key for cell in cells), "", said, holds=holds)]


def _rise(claim: Claim, first: Cell, second: Cell) -> int:
    """Return 1 or -1 where the quantity surely rises or falls from one cell to the next, over the same seeds."""
    low, high = (cell.per_seed(claim["method"], claim["quantity"]) for cell in (first, second))
    both = sorted(low.keys() & high.keys())
    return difference_side([high[seed] - low[seed] for seed in both]) if both else 0


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
        falls = [(each[len(each) // 5] / each[0], each[-1] / each[len(each) // 5]) for each in norms]
        early, late = (fmean(values) for values in zip(*falls, strict=True))
        side = difference_side([then - first for first, then in falls])
        said = f"to {percent(early)} of the first in a fifth of the rounds, then to {percent(late)} of that"
        found.append(Finding(claim["says"], cell.key, "", said, early, side > 0 if side else None))
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
