"""`adagq watch`: a run as it goes."""

import time
from pathlib import Path
from typing import Annotated

import typer


def watch(
    run: Annotated[Path, typer.Argument(help="A run directory, of a deployment or of a simulation.")],
    seconds: Annotated[float, typer.Option(min=0.1, help="Between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show it once and leave.")] = False,
) -> None:
    """Show accuracy over time, what every node does, bytes and incidents, until Ctrl-C; changes nothing."""
    from rich.console import Console
    from rich.live import Live

    from adagq.report.watch import view

    if once:
        Console().print(view(run))
        return
    with Live(view(run), auto_refresh=False) as live:
        try:
            while True:
                time.sleep(seconds)
                live.update(view(run), refresh=True)
        except KeyboardInterrupt:
            return
