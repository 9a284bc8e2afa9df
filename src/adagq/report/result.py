"""A finished run as Python values: rows, ledger, incidents and summary, a table, a figure and the page."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adagq.core.extras import need
from adagq.core.jsonl import read_lines
from adagq.report.headline import headline
from adagq.report.run import Run, load
from adagq.report.summary import Summary, by_seed
from adagq.report.table import sheet, summary_table
from adagq.report.write import run_summary, write_page, write_report

if TYPE_CHECKING:
    import pandas
    from rich.table import Table


class Records(list[dict[str, Any]]):
    """The lines of a file of the run, in the order in which they were written."""

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a DataFrame with a line for each record."""
        frame: pandas.DataFrame = need("pandas", "pandas").DataFrame.from_records(list(self))
        return frame


class MethodSummaries(dict[str, Any]):
    """summary.json: `run` has the facts, `methods` what each method needed until the target."""

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a DataFrame with a line for each method: means, and deviations in columns that end in `_std`."""
        lines = {name: _flat(record) for name, record in self["methods"].items()}
        frame: pandas.DataFrame = need("pandas", "pandas").DataFrame.from_dict(lines, orient="index")
        frame.index.name = "method"
        return frame


class Result:
    """What a run left in `directory`; `diverged` has the round in which each (method, seed) ended that diverged.

    A run without a directory of its own lies in a temporary one, which goes when the result does (`keep` holds it).
    `target` takes the place of the run's own target accuracy.
    """

    def __init__(
        self,
        directory: Path,
        diverged: Mapping[tuple[str, int], int] | None = None,
        keep: object = None,
        target: float | None = None,
    ) -> None:
        self.directory = directory
        self.target = target
        self.diverged = dict(diverged or {})
        self._keep = keep

    @cached_property
    def rows(self) -> Records:
        """One record per method, seed and round."""
        return Records(read_lines(self.directory / "rows.jsonl"))

    @cached_property
    def ledger(self) -> Records:
        """One record per method, seed, round and client."""
        return Records(read_lines(self.directory / "ledger.jsonl"))

    @cached_property
    def incidents(self) -> Records:
        """One record per client that did not deliver, or whose delivery could not be used."""
        return Records(read_lines(self.directory / "incidents.jsonl"))

    @cached_property
    def summary(self) -> MethodSummaries:
        """What every method needed until it first reached the target; see `adagq.report.summary`."""
        return MethodSummaries(run_summary(self._run, self.target))

    def table(self) -> "Table":
        """Return the comparison for a terminal: `rich.print(result.table())`."""
        return summary_table(self.summary)

    def plot(self, path: Path | str, over: str = "time") -> Path:
        """Draw accuracy over `time`, `data` (bytes a client sent and received) or `rounds`; .svg, .png or .pdf."""
        need("matplotlib", "report")
        from adagq.report.canvas import save_drawn
        from adagq.report.figures import accuracy
        from adagq.report.series import accuracy_curves
        from adagq.report.units import scale_note

        drawn = accuracy_curves(self.rows, over, self.summary["run"]["clients"])
        note = scale_note(self.summary["run"]["payload_scale"])
        return save_drawn(lambda: accuracy(drawn, self.summary, over), Path(path), note)

    def report(self, path: Path | str | None = None) -> Path:
        """Write the page; without a path report.html with all its files goes into the run's directory."""
        if path is None:
            return write_report(self.directory, target=self.target)
        return write_page(self._run, self.summary, Path(path))

    @cached_property
    def _run(self) -> Run:
        return load(self.directory)

    def __repr__(self) -> str:
        runs = {method: len(seeds) for method, seeds in by_seed(self.rows).items()}
        methods = ", ".join(f"{method} ({count} seed{'s' if count != 1 else ''})" for method, count in runs.items())
        return f"<adagq result of {methods} in {self.directory}>"

    def __rich__(self) -> "Table":
        return self.table()

    def _repr_html_(self) -> str:
        """Return the headline and the table, for notebooks."""
        return _html(self.summary)


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    spreads = {key: value for key, value in record.items() if isinstance(value, Mapping) and "mean" in value}
    means: dict[str, Any] = {"reached": record["reached"]}
    return means | {key + end: value[kind] for key, value in spreads.items() for kind, end in _ENDS}


_ENDS = (("mean", ""), ("std", "_std"))


def _html(summary: Summary) -> str:
    page = sheet(summary)
    head = _elements("th", ("method", *page.columns))
    cells = {line.method: [f"{cell.mean} {cell.std}".strip() for cell in line.cells] for line in page.lines}
    body = "".join(f"<tr>{_elements('th', (name,))}{_elements('td', texts)}</tr>" for name, texts in cells.items())
    missed = [f"{line.method} {line.missed}." for line in page.lines if line.missed]
    notes = _elements("p", (*missed, *page.notes))
    said = _elements("p", [headline(summary)])
    return f"{said}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _elements(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
