"""What the claims come to, as tables: Markdown, the terminal, JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.table import Table

HEADINGS = ("the paper says", "in", "its number", "ours", "verdict")
MARKS = {True: "yes", False: "no", None: "open"}


@dataclass(frozen=True)
class Finding:
    """One sentence of the paper in one cell."""

    says: str
    cell: str
    paper: str
    ours: str
    value: float | None = None
    holds: bool | None = None  # None: the data do not decide
    error: float | None = None  # standard error of `value`, over pairs of seeds
    judged: bool = True  # False: a number beside the paper's, which no data decide

    @property
    def verdict(self) -> str:
        return MARKS[self.holds] if self.judged else ""


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
        ("" if found.says == said else found.says, found.cell, found.paper, found.ours, found.verdict)
        for found, said in zip(findings, before, strict=False)
    ]


def findings_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [asdict(found) for found in findings]
