"""`adagq advise`: the best row of the leaderboard for a fleet of one's own."""

from pathlib import Path
from typing import Annotated

import typer


def advise(
    fleet: Annotated[Path, typer.Argument(help="A fleet file, such as `adagq fleet from-csv` writes.")],
    params: Annotated[str, typer.Option(help="Parameters of the model, such as 11M.")],
    board: Annotated[
        Path | None, typer.Option(help="Folder of your own leaderboard; default: the one that came with adagq.")
    ] = None,
    task: Annotated[str, typer.Option(help="Task of the board whose times count: digits or fashion.")] = "digits",
    rows: Annotated[int, typer.Option(min=1, help="How many rows to show.")] = 8,
) -> None:
    """Pick the method for your fleet from the leaderboard, with the reason and the expected time."""
    from rich.console import Console

    from adagq.benchmarks.advise import advise as pick
    from adagq.cli.terminal import advice_table
    from adagq.experiments.plan_input import parse_count
    from adagq.simulation.fleet import load_fleet

    Console().print(advice_table(pick(load_fleet(fleet), parse_count(params), board, task), task, rows))
