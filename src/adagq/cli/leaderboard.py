"""`adagq leaderboard`: every row on several fleets, in order of time."""

from pathlib import Path
from typing import Annotated

import typer

from adagq.cli.common import Seeds, Workers, follow, worker_count


def leaderboard(
    fleets: Annotated[
        str | None, typer.Option(help="paper,slower-10,slower-100,failing: some of them; default: all.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Rows of `adagq methods`: a,b,…; default: the board's.")] = None,
    seeds: Seeds = None,
    out: Annotated[Path, typer.Option(help="Folder of the results; runs that are there are gone on with.")] = Path(
        "results/leaderboard"
    ),
    workers: Workers = None,
    show_only: Annotated[bool, typer.Option("--show-only", help="Run nothing; show what is there.")] = False,
) -> None:
    """Rank the methods by the time to the target on each fleet; interrupted, the same command goes on."""
    from adagq.benchmarks.leaderboard import left, load, play, standings, write_page
    from adagq.core.errors import ConfigError

    parts = load(_names(fleets), _names(methods), {} if seeds is None else {"seeds": seeds})
    if not show_only:
        rounds = max(part.config.training.max_rounds for part in parts)
        follow(play(parts, out, worker_count(workers)), left(parts, out), rounds, "the same command")
    if not (found := standings(parts, out)):
        raise ConfigError(f"{out}: no rows there; leave --show-only out")
    page = write_page(found, out)
    typer.echo(page.read_text("utf-8"))
    typer.echo(page)


def _names(given: str | None) -> list[str]:
    return [] if given is None else [name.strip() for name in given.split(",") if name.strip()]
