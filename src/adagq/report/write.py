"""Rebuild everything that is made from a run's rows: summary.json, the table as CSV and LaTeX, report.html, figures."""

import json
from collections.abc import Iterable
from pathlib import Path

from adagq.core.atomic import replacing
from adagq.core.extras import need
from adagq.report.export import table_csv, table_tex
from adagq.report.run import Row, Run, load, number
from adagq.report.summary import Summary, by_seed, summarize


def write_report(run_dir: Path | str, *, target: float | None = None, figures: bool = True) -> Path:
    """Write summary.json, table.csv, table.tex, report.html and, if wanted, figures/ into `run_dir`; the page's path.

    The target accuracy comes from `target`, else from the run's config, else from an earlier `target`, else from the
    rows: a Flower app sets none.
    """
    run = load(run_dir)
    summary = run_summary(run, target)
    write_summary(run.directory, summary)
    for name, text in (("table.csv", table_csv(summary)), ("table.tex", table_tex(summary))):
        with replacing(run.directory / name) as file:
            file.write(text.encode())
    page = write_page(run, summary, run.directory / "report.html")
    if figures:
        need("matplotlib", "report")
        from adagq.report.figures import write_figures  # matplotlib takes its time to import

        write_figures(run, summary)
    return page


def write_page(run: Run, summary: Summary, path: Path) -> Path:
    """Write the page alone, which needs no other file."""
    need("jinja2", "report")
    from adagq.report.page import render

    text = render(run, summary)
    with replacing(path) as file:
        file.write(text.encode())
    return path


def write_summary(run_dir: Path | str, summary: Summary) -> Path:
    """Write `summary` as summary.json; the file's path."""
    path = Path(run_dir) / "summary.json"
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    with replacing(path) as file:
        file.write(text.encode())
    return path


def run_summary(run: Run, target: float | None = None) -> Summary:
    """Return what every method of the run needed until the target."""
    named = target if target is not None else run.facts.get("target")
    summary = summarize(
        run.rows,
        _common_accuracy(run.rows) if named is None else named,
        payload_scale=run.facts.get("payload_scale", 1.0),
        task=run.facts["task"],
        # A deployment's links were measured; the fleet in its config was not used.
        fleet="real nodes" if all(row.get("clock") == "measured" for row in run.rows) else run.facts["fleet"],
        clients=run.facts.get("clients") or run.clients,
    )
    summary["run"]["target_named"] = named is not None
    return summary


def _common_accuracy(rows: Iterable[Row]) -> float:
    """Return the best accuracy that every run of the rows reached; 1 where a run's model was never tested."""
    runs = by_seed(rows)
    best = [
        max((number(row.get("accuracy")) or 0.0 for row in run), default=0.0)
        for seeds in runs.values()
        for run in seeds.values()
    ]
    return min(best, default=0.0) or 1.0
