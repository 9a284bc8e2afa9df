"""`adagq bench server`."""

from typing import Annotated

import typer

Updates = Annotated[list[int] | None, typer.Option(min=1, help="Updates in a round; repeatable. 1,000 and 10,000.")]
Params = Annotated[int, typer.Option(min=1, help="Parameters of the model.")]


def bench_server(updates: Updates = None, params: Params = 1_000_000) -> None:
    """Add up a round of many updates: times as ratios to memcpy, and the memory it takes."""
    from adagq.benchmarks.server import run

    run(updates or (1_000, 10_000), params)
