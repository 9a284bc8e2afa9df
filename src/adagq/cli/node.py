"""`adagq node`: a node of a federation."""

from typing import Annotated

import typer


def node(
    context: typer.Context,
    poll_seconds: Annotated[float, typer.Option(min=0.01, max=60.0, help="Seconds between two looks for work.")] = 0.2,
) -> None:
    """Start Flower's SuperNode, quicker to find its work; all flags of `flower-supernode` are passed on."""
    from adagq.core.extras import need

    need("flwr", "flower")
    from adagq.flower.supernode import run

    run(context.args, poll_seconds)
