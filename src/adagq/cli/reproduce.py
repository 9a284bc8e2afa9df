"""`adagq reproduce`: the paper's tables and figures."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from adagq.cli.common import Workers, follow, names_in, worker_count


def reproduce(
    exhibits: Annotated[
        list[str], typer.Argument(help="table1, table2, table3, fig2, fig3, fig6, fig7, ablation, regimes, or all.")
    ],
    scale: Annotated[
        str, typer.Option(help="smoke (seconds), small (hours of two cores), medium (30 hours), paper (days).")
    ] = "small",
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds; default: what the scale says.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue where an interrupted run stopped.")] = False,
    methods: Annotated[
        str | None,
        typer.Option(help="Only these (a,b), to their end; for scales whose runs take turns: medium."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the results; default: results/SCALE.")] = None,
    workers: Workers = None,
    experiments: Annotated[
        Path | None, typer.Option(help="Folder of the settings files; default: adagq's own.")
    ] = None,
    show_only: Annotated[bool, typer.Option("--show-only", help="Run nothing; show what is there.")] = False,
) -> None:
    """Run the paper's tables and figures, and set the paper's numbers beside ours."""
    from rich.console import Console

    from adagq.paper.exhibits import show_exhibit
    from adagq.paper.reproduce import EXPERIMENTS, directories, load, note_origin
    from adagq.paper.reproduce import reproduce as run

    folder = out or Path("results") / scale
    plan = load(experiments or EXPERIMENTS, exhibits, scale, {} if seeds is None else {"seeds": seeds})
    if not show_only:
        steps = run(plan, folder, worker_count(workers), resume, names_in(methods))
        begun = time.monotonic()
        try:
            follow(steps, plan.runs_left(folder), plan.max_rounds, "the same command and --resume")
        finally:  # a long scale is stopped more often than it ends
            note_origin(folder, ["adagq", *sys.argv[1:]], list(plan.experiments), time.monotonic() - begun)
    for name, exhibit in plan.exhibits.items():
        cells, numbers = directories(exhibit, folder), plan.numbers.get(name, {})
        show_exhibit(name, exhibit, cells, numbers, folder, Console(), plan.milestones(name))
