"""`adagq plan`: what a round will cost, before anything is trained."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adagq.cli.common import FleetFile, Task, fleet_setting, given_settings, own_task

if TYPE_CHECKING:
    from adagq.experiments.plan_input import PlannedClient


def plan(
    params: Annotated[str | None, typer.Option(help="Parameters of the model, such as 11.2M.")] = None,
    task: Task = None,
    fleet: FleetFile = None,
    uplink: Annotated[str | None, typer.Option(help="Slowest and fastest uplink, Mbit/s.  [default: 5,20]")] = None,
    downlink: Annotated[float | None, typer.Option(help="Mbit/s.  [default: 70]")] = None,
    clients: Annotated[
        int | None, typer.Option(min=1, help="How many, evenly between the uplinks.  [default: 20, or the task's]")
    ] = None,
    compute: Annotated[
        float | None, typer.Option(help="Seconds of one local epoch.  [default: the fleet file's, or 15.5]")
    ] = None,
    exchange_seconds: Annotated[
        str,
        typer.Option(
            help="What an exchange costs beside bytes and computing: seconds, or as measured for `adagq node` (node) "
            "or plain SuperNodes (supernode)."
        ),
    ] = "0",
    epoch_efficiency: Annotated[
        float | None, typer.Option(help="What an epoch of five in a row brings, of one in a round of its own.")
    ] = None,
    heatmap: Annotated[Path | None, typer.Option(help="Draw time saved over rates and compute times here.")] = None,
) -> None:
    """Predict every method's round and say whether compression pays."""
    from rich.console import Console

    from adagq.cli.terminal import draw_plan, plan_table
    from adagq.core.errors import ConfigError
    from adagq.core.extras import need
    from adagq.experiments.config import load_config
    from adagq.experiments.plan import plan as predict
    from adagq.experiments.plan_input import PlanInput, parse_count, parse_exchange_seconds, parse_span

    if (params is None) == (task is None):
        raise ConfigError("the size of the model: give --params, or --task for a model of your own")
    if fleet is not None and (uplink or downlink or clients):
        raise ConfigError(f"--fleet {fleet}: has the links already; leave out --uplink, --downlink and --clients")
    if heatmap is not None:
        need("matplotlib", "report")
    if params is None:
        built = load_config(None, [*fleet_setting(fleet), *given_settings(task=own_task(task))]).task.build()
        params, clients = str(built.layout.elements), clients or built.clients
    size = parse_count(params)
    spans = {} if uplink is None else {"uplink_mbps": parse_span(uplink)}
    given = {"downlink_mbps": downlink, "clients": clients, "compute_seconds": compute}
    given |= {"five_epoch_efficiency": epoch_efficiency}
    given |= {"exchange_seconds": parse_exchange_seconds(exchange_seconds)}
    members = {} if fleet is None else {"members": _members(fleet, size, compute)}
    known = {key: value for key, value in given.items() if value is not None}
    asked = PlanInput(params=size, **spans, **known, **members)  # type: ignore[arg-type]
    Console().print(plan_table(predict(asked)))
    if heatmap is not None:
        typer.echo(draw_plan(asked, heatmap))


def _members(path: Path, params: float, compute: float | None) -> "tuple[PlannedClient, ...]":
    """Return the clients of a fleet file; `compute` takes the place of its epoch_seconds."""
    from dataclasses import replace

    from adagq.experiments.plan_input import members_of
    from adagq.simulation.fleet import build, load_fleet

    config = load_fleet(path)
    names = [group.name or "" for group in config.client for _ in range(group.count)] or [""] * config.clients
    members = members_of(build(config, seed=0), names, params)
    return members if compute is None else tuple(replace(one, epoch_seconds=compute) for one in members)
