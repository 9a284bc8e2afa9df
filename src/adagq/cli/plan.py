"""`adagq plan`: what a round will cost, before anything is trained."""

from pathlib import Path
from typing import Annotated

import typer


def plan(
    params: Annotated[str, typer.Option(help="Parameters of the model, such as 11.2M.")],
    uplink: Annotated[str, typer.Option(help="Slowest and fastest uplink, Mbit/s.")] = "5,20",
    downlink: Annotated[float, typer.Option(help="Mbit/s.")] = 70.0,
    compute: Annotated[float, typer.Option(help="Seconds of one local epoch.")] = 15.5,
    clients: Annotated[int, typer.Option(min=1, help="How many, evenly between the two uplinks.")] = 20,
    exchange_seconds: Annotated[
        float, typer.Option(help="What an exchange costs beside bytes and computing: `adagq bench flower`.")
    ] = 0.0,
    epoch_efficiency: Annotated[
        float | None, typer.Option(help="What an epoch of five in a row brings, of one in a round of its own.")
    ] = None,
    heatmap: Annotated[Path | None, typer.Option(help="Draw time saved over rates and compute times here.")] = None,
) -> None:
    """Predict every method's round and say whether compression pays."""
    from rich.console import Console

    from adagq.cli.terminal import draw_plan, plan_table
    from adagq.experiments.plan import plan as predict
    from adagq.experiments.plan_input import PlanInput, parse_count, parse_span

    given = PlanInput(
        params=parse_count(params),
        uplink_mbps=parse_span(uplink),
        downlink_mbps=downlink,
        compute_seconds=compute,
        clients=clients,
        exchange_seconds=exchange_seconds,
        **({} if epoch_efficiency is None else {"five_epoch_efficiency": epoch_efficiency}),
    )
    Console().print(plan_table(predict(given)))
    if heatmap is not None:
        typer.echo(draw_plan(given, heatmap))
