"""`adagq verify`: is a run directory what the run wrote?"""

from pathlib import Path
from typing import Annotated

import typer


def verify(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    hash: Annotated[str, typer.Option(help="The last hash as you noted it: finds a log that was made anew.")] = "",
) -> None:
    """Check a run's audit log, rows, ledger, incidents, settings and checkpoint; exit code 2 if any was changed."""
    from adagq.experiments.verify import verify as check

    found = check(run, hash)
    checkpoint = "checkpoint and settings agree" if found.checkpoint else "no checkpoint to compare with"
    typer.echo(f"{run}: {found.rounds} rounds, unbroken; {checkpoint}")
    if found.unclosed_bytes:
        typer.echo(f"{found.unclosed_bytes} bytes are of a round that was interrupted; --resume drops them")
    typer.echo(f"last hash {found.last_hash}")
