"""The paper's tables and figures from our runs, with the paper's numbers beside ours.

    write_exhibit(exhibit, cells, numbers, out)    table1.md and table1.json; or fig6.md, fig6.json, fig6.svg, fig6.png
    exhibit_table(exhibit, cells, numbers)         for the terminal: a table's numbers, what the paper says of a figure
    show_exhibit(...)                              both, from a row of experiments/exhibits.toml

    cells.py      finished runs -> cells          tables.py    entries, Markdown, rich
    claims.py     what the paper says             columns.py   columns over rounds
    plotted.py    numbers of the figures          figures.py   the figures

`numbers` is the exhibit's part of experiments/numbers.toml. Cells that are missing or unfinished are shown as
"not run".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from rich.console import Console
from rich.table import Table

from adagq.core.atomic import replacing
from adagq.core.errors import ConfigError
from adagq.paper.cells import NOT_RUN, Cell, Milestones, read_cells
from adagq.paper.claims import check_claims
from adagq.paper.findings import Finding, claim_lines, claims_table, findings_json
from adagq.paper.milestones import Progress, progress_json, progress_lines, progress_table, read_progress
from adagq.paper.plotted import plotted
from adagq.paper.tables import LEGEND, cell_notes, rich_table, table_entries, table_lines
from adagq.report.units import scale_note

__all__ = ["Exhibit", "exhibit_table", "show_exhibit", "write_exhibit"]

Kind = Literal["table", "norms_and_accuracy", "bits_for_the_slow", "curves", "split"]
Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of the paper: what it is called, how it is drawn, what varies over its cells."""

    name: str  # table1: the name of its files
    kind: Kind
    title: str
    varies: str = ""  # sigma_d, sigma_r, task
    keys: tuple[str, ...] = ()  # its cells in order, run or not; else those of the paper's numbers
    milestones: Milestones = field(default_factory=dict)  # of the cells whose runs take turns

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigError(f"{self.name}: kind = {self.kind!r}; known: {', '.join(get_args(Kind))}")


def write_exhibit(exhibit: Exhibit, cells: Mapping[str, Path], numbers: Numbers, out: Path) -> list[Path]:
    """Write an exhibit into the folder `out`; return the paths of its files."""
    read = _read(exhibit, cells, numbers)
    findings = check_claims(numbers.get("claims", ()), read)
    progress = _progress(exhibit, cells)
    page = _page(exhibit, read, numbers, findings, progress)
    more = {"milestones": progress_json(progress)} if progress else {}
    if exhibit.kind == "table":
        return [
            _write(out / f"{exhibit.name}.md", page),
            _write(out / f"{exhibit.name}.json", _json(exhibit, {"entries": _entries(read, numbers)} | more, findings)),
        ]
    from adagq.paper.figures import DRAWS
    from adagq.report.canvas import drawn, save  # matplotlib takes its time to import

    scales = {cell.summary["run"]["payload_scale"] for cell in read.values() if cell.summary} - {1}
    note = scale_note(scales.pop()) if len(scales) == 1 else "small models stand in for large ones" if scales else ""
    figure = drawn(lambda: DRAWS[exhibit.kind](read), note)
    return [
        *(save(figure, out / f"{exhibit.name}.{kind}") for kind in ("svg", "png")),
        _write(out / f"{exhibit.name}.md", page),
        _write(out / f"{exhibit.name}.json", _json(exhibit, {"cells": plotted(exhibit.kind, read)} | more, findings)),
    ]


def exhibit_table(exhibit: Exhibit, cells: Mapping[str, Path], numbers: Numbers) -> Table:
    """Return for the terminal the numbers of a table, or what the paper says of a figure beside ours."""
    read = _read(exhibit, cells, numbers)
    if exhibit.kind == "table":
        return rich_table(_entries(read, numbers), exhibit.title, exhibit.varies)
    return claims_table(check_claims(numbers.get("claims", ()), read), exhibit.title)


def show_exhibit(
    name: str,
    row: Mapping[str, Any],
    cells: Mapping[str, Path],
    numbers: Numbers,
    out: Path,
    console: Console,
    milestones: Milestones | None = None,
) -> list[Path]:
    """Write an exhibit that a row of exhibits.toml describes, print its table and where its files are."""
    if row["kind"] == "regimes":
        from adagq.paper.regimes import write_regimes

        places = {key: cells.get(key, out / cell) for key, cell in row["cells"].items()}
        paths = write_regimes(name, row["title"], row["params"], places, out)
    else:
        keys = tuple(row.get("cells", ()))
        exhibit = Exhibit(name, row["kind"], row["title"], row.get("varies", ""), keys, milestones or {})
        paths = write_exhibit(exhibit, cells, numbers, out)
        if progress := _progress(exhibit, cells):
            console.print(progress_table(progress, f"{row['title']}: time to each milestone"))
        console.print(exhibit_table(exhibit, cells, numbers))
    for path in paths:
        console.print(str(path), highlight=False, soft_wrap=True)
    return paths


def _read(exhibit: Exhibit, cells: Mapping[str, Path], numbers: Numbers) -> dict[str, Cell]:
    known = exhibit.keys or tuple(numbers.get("cells", ()))
    return read_cells(dict.fromkeys(known), cells, exhibit.milestones)


def _progress(exhibit: Exhibit, cells: Mapping[str, Path]) -> list[Progress]:
    """Return how far the runs that take turns have come."""
    taking = {key: path for key, path in cells.items() if key in exhibit.milestones}
    return [one for key, path in taking.items() for one in read_progress(key, path, exhibit.milestones[key])]


def _entries(cells: Mapping[str, Cell], numbers: Numbers) -> list[dict[str, Any]]:
    return table_entries(cells, numbers.get("cells", {}))


def _shown(exhibit: Exhibit, cells: Mapping[str, Cell], numbers: Numbers) -> list[dict[str, Any]]:
    """Return the entries of the page; where runs take turns, what has not run stands in the table of milestones."""
    entries = _entries(cells, numbers)
    return [entry for entry in entries if entry["cell"] not in exhibit.milestones or entry["status"] != NOT_RUN]


def _page(
    exhibit: Exhibit,
    cells: Mapping[str, Cell],
    numbers: Numbers,
    findings: list[Finding],
    progress: list[Progress],
) -> str:
    """Return the Markdown page: figure, table, what was run, what the paper says."""
    targets: dict[str, float] = numbers.get("targets", {})
    if "target" in numbers:
        targets = dict.fromkeys(cells, float(numbers["target"]))
    lines = [f"# {exhibit.title}", ""]
    if exhibit.kind != "table":
        lines += [f"![{exhibit.title}]({exhibit.name}.svg)", ""]
    if exhibit.kind != "norms_and_accuracy":  # whose runs have no target to reach
        lines += [*table_lines(_shown(exhibit, cells, numbers), exhibit.varies), "", LEGEND, ""]
    lines += ["What was run:", "", *cell_notes(cells, targets), *progress_lines(progress), *claim_lines(findings)]
    return "\n".join(lines) + "\n"


def _json(exhibit: Exhibit, content: Mapping[str, Any], findings: list[Finding]) -> str:
    facts = {"exhibit": exhibit.name, "kind": exhibit.kind, "title": exhibit.title, "varies": exhibit.varies}
    tree = facts | dict(content) | {"claims": findings_json(findings)}
    return json.dumps(tree, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> Path:
    with replacing(path) as file:
        file.write(text.encode())
    return path
