"""`adagq pause` and `adagq resume`: stop a deployment between two rounds, and let it go on."""

from pathlib import Path
from typing import Annotated

import typer

RunDir = Annotated[Path, typer.Argument(help="The run directory of a deployment (`out` of the strategy).")]


def pause(run: RunDir) -> None:
    """Pause a run on real nodes after the round under way; nodes stay connected."""
    from adagq.experiments.pausing import pause as act

    typer.echo(f"{run}: pauses after this round" if act(run) else f"{run}: is paused already")


def resume(run: RunDir) -> None:
    """Let a paused run go on. (A run that was stopped goes on with --resume of its own command.)"""
    from adagq.experiments.pausing import resume as act

    typer.echo(f"{run}: goes on" if act(run) else f"{run}: was not paused")
