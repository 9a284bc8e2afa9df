"""`adagq leaderboard`: every row on several fleets, in order of time."""

from pathlib import Path
from typing import Annotated

import typer

from adagq.cli.common import Seeds, Workers, follow, names_in, worker_count


def leaderboard(
    scale: Annotated[str, typer.Option(help="Tasks of the board: digits, fashion, or all.")] = "all",
    fleets: Annotated[
        str | None, typer.Option(help="paper,slower-10,slower-100,failing: some of them; default: all.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Rows of `adagq methods`: a,b,…; default: the board's.")] = None,
    optimizers: Annotated[str | None, typer.Option(help="plain,nesterov: one of them; default: both.")] = None,
    seeds: Seeds = None,
    sweep: Annotated[Path | None, typer.Option(help="Run this file's variants in place of the board.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results; runs that are there are kept.")] = Path(
        "results/leaderboard"
    ),
    page: Annotated[
        Path | None, typer.Option(help="Draw overviews and first places between the marks of this page, too.")
    ] = None,
    workers: Workers = None,
    show_only: Annotated[bool, typer.Option("--show-only", help="Run nothing; show what is there.")] = False,
) -> None:
    """Rank the methods by the time to the target on each fleet; interrupted, the same command goes on."""
    from adagq.benchmarks import leaderboard as board
    from adagq.benchmarks.standings import MOST, PAGE, page_of, standings, write_page
    from adagq.core.errors import ConfigError

    if sweep is None:
        entries = board.load(
            [] if scale == "all" else names_in(scale), names_in(fleets), names_in(methods), names_in(optimizers), seeds
        )
    else:
        entries = board.sweep(sweep)
    if not show_only:
        rounds = max(entry.config.training.max_rounds for entry in entries)
        steps = board.play(entries, out, worker_count(workers))
        follow(steps, len(board.left(entries, out)), rounds, "the same command")
    if not (found := standings(board.records(out, entries))):
        raise ConfigError(f"{out}: no runs of these settings there; leave --show-only out")
    targets = {entry.task: entry.config.training.target for entry in entries}
    lines = page_of(found, targets)
    typer.echo("\n".join(lines))
    if sweep is None:
        typer.echo(write_page(lines, out / PAGE))
        if page is not None:
            typer.echo(write_page(page_of(found, targets, MOST), page))
