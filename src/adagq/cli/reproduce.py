"""`adagq reproduce`: the paper's tables and figures."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    exhibits: Annotated[
        list[str], typer.Argument(help="table1, table2, table3, fig2, fig3, fig6, fig7, ablation, regimes, or all.")
    ],
    scale: Annotated[str, typer.Option(help="smoke (seconds), small (hours of two cores), paper (days).")] = "small",
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds; default: what the scale says.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue where an interrupted run stopped.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the results; default: results/SCALE.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one per core.")] = None,
    experiments: Annotated[Path, typer.Option(help="Folder of the settings files.")] = Path("experiments"),
    show_only: Annotated[bool, typer.Option("--show-only", help="Run nothing; show what is there.")] = False,
) -> None:
    """Run the paper's tables and figures, and set the paper's numbers beside ours."""
    from rich.console import Console

    from adagq.report.paper import show_exhibit
    from adagq.reproduce import directories, load, note_origin
    from adagq.reproduce import reproduce as run
    from adagq.terminal import show

    folder = out or Path("results") / scale
    plan = load(experiments, exhibits, scale, {} if seeds is None else {"seeds": seeds})
    if not show_only:
        console = Console(stderr=True)
        runs = plan.runs_left(folder)
        steps = run(plan, folder, workers or len(os.sched_getaffinity(0)), resume)
        try:
            show(steps, runs, plan.max_rounds, console)
        except KeyboardInterrupt:
            console.print("stopped; continue with the same command and --resume", highlight=False)
            raise typer.Exit(130) from None
        note_origin(folder, ["adagq", *sys.argv[1:]], list(plan.cells))
    for name, exhibit in plan.exhibits.items():
        show_exhibit(name, exhibit, directories(exhibit, folder), plan.numbers.get(name, {}), folder, Console())
