"""Rebuild everything that is made from a run's rows: summary.json, report.html and the figures."""

import json
from pathlib import Path

from adagq.drafts import replacing
from adagq.errors import ConfigError
from adagq.report.page import render
from adagq.report.run import Run, load
from adagq.report.summary import Summary, summarize


def write_report(run_dir: Path | str, *, target: float | None = None, figures: bool = True) -> Path:
    """Write summary.json, report.html and (unless told not to) figures/ into `run_dir`; the page's path.

    The target accuracy comes from `target`, else from the run's summary, else from its config.
    """
    run = load(run_dir)
    summary = _summary(run, target)
    write_summary(run.directory, summary)
    page = run.directory / "report.html"
    text = render(run, summary)
    with replacing(page) as file:
        file.write(text.encode())
    if figures:
        from adagq.report.figures import write_figures  # matplotlib takes its time to import

        write_figures(run, summary)
    return page


def write_summary(run_dir: Path | str, summary: Summary) -> Path:
    """Write `summary` as summary.json; the file's path."""
    path = Path(run_dir) / "summary.json"
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    with replacing(path) as file:
        file.write(text.encode())
    return path


def _summary(run: Run, target: float | None) -> Summary:
    target = target if target is not None else run.facts.get("target")
    if target is None:
        raise ConfigError(f"{run.directory}: neither summary.json nor config.toml names a target accuracy")
    return summarize(
        run.rows,
        target,
        payload_scale=run.facts.get("payload_scale", 1.0),
        task=run.facts["task"],
        # A deployment's links were measured; the fleet in its config was not used.
        fleet="real nodes" if all(row.get("clock") == "measured" for row in run.rows) else run.facts["fleet"],
        clients=run.facts.get("clients") or run.clients,
    )
