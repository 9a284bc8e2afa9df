"""`adagq plan`: what a round will cost, before anything is trained."""

from pathlib import Path
from typing import Annotated

import typer

from adagq.cli.common import Task, given_settings, own_task


def plan(
    params: Annotated[str | None, typer.Option(help="Parameters of the model, such as 11.2M.")] = None,
    task: Task = None,
    uplink: Annotated[str, typer.Option(help="Slowest and fastest uplink, Mbit/s.")] = "5,20",
    downlink: Annotated[float, typer.Option(help="Mbit/s.")] = 70.0,
    compute: Annotated[float, typer.Option(help="Seconds of one local epoch.")] = 15.5,
    clients: Annotated[
        int | None, typer.Option(min=1, help="How many, evenly between the two uplinks; default: 20, or the task's.")
    ] = None,
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
    from adagq.core.errors import ConfigError
    from adagq.experiments.config import load_config
    from adagq.experiments.plan import plan as predict
    from adagq.experiments.plan_input import PlanInput, parse_count, parse_span

    if (params is None) == (task is None):
        raise ConfigError("the size of the model: give --params, or --task for a model of your own")
    if params is None:
        built = load_config(None, given_settings(task=own_task(task))).task.build()
        params, clients = str(built.layout.elements), clients or built.clients
    given = PlanInput(
        params=parse_count(params),
        uplink_mbps=parse_span(uplink),
        downlink_mbps=downlink,
        compute_seconds=compute,
        clients=clients or 20,
        exchange_seconds=exchange_seconds,
        **({} if epoch_efficiency is None else {"five_epoch_efficiency": epoch_efficiency}),
    )
    Console().print(plan_table(predict(given)))
    if heatmap is not None:
        typer.echo(draw_plan(given, heatmap))
