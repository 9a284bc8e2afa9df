"""The table of a comparison for other programs: plain numbers as CSV, the page's cells as LaTeX."""

import csv
import io
from collections.abc import Iterable
from typing import Any

from adagq.report.summary import SPENT, Summary, shown
from adagq.report.table import Measure, sheet

COLUMNS = (*SPENT, "tax", "speedup", "accuracy", "best_accuracy")
SPECIAL = {"%": r"\%", "&": r"\&", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}"}
SYMBOLS = {"×": r"$\times$", "≥": r"$\ge$", "–": "--", "\u202f": r"\,"}


def table_csv(summary: Summary) -> str:
    """Return a line per method: share of seeds that reached the target, then means and deviations in seconds and bytes.

    A method that missed the target has what it spent in its columns, and `reached` says so.
    """
    lines = [["method", "reached", *(f"{key}{end}" for key in COLUMNS for end in ("", "_std"))]]
    for name, record in summary["methods"].items():
        numbers = {**record, **{key: shown(record)[key] for key in SPENT}}
        spreads = [numbers[key] for key in COLUMNS]
        cells = [_plain(spread[kind]) for spread in spreads for kind in ("mean", "std")]
        lines.append([name, _plain(record["reached"]), *cells])
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()


def table_tex(summary: Summary) -> str:
    """Return the table in LaTeX, for the package booktabs."""
    page = sheet(summary)
    head = ("method", *page.columns)
    lines = [
        rf"% {page.title}",
        rf"\begin{{tabular}}{{l{'r' * len(page.columns)}}}",
        r"\toprule",
        _row(map(_tex, head)),
        r"\midrule",
        *(_row((_tex(line.method), *map(_tex_cell, line.cells))) for line in page.lines),
        r"\bottomrule",
        r"\end{tabular}",
        *(f"% {line.method} {line.missed}" for line in page.lines if line.missed),
        *(f"% {note}" for note in page.notes),
    ]
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> str:
    return "" if value is None else f"{value:.6g}"


def _row(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _tex(text: str) -> str:
    return "".join(SPECIAL.get(letter) or SYMBOLS.get(letter) or letter for letter in text)


def _tex_cell(cell: Measure) -> str:
    return _tex(cell.mean) + (rf" $\pm$ {_tex(cell.std.removeprefix('±'))}" if cell.std else "")
