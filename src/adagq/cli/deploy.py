"""`adagq deploy`: real federations."""

from pathlib import Path
from typing import Annotated

import typer

from adagq.cli.common import (
    ConfigFile,
    Settings,
    Task,
    follow,
    given_settings,
    own_task,
    run_directory,
    settings_file,
    show_report,
)

deploy = typer.Typer(name="deploy", help="Run real federations on Flower.", no_args_is_help=True)


@deploy.command("local")
def local(
    config: ConfigFile = None,
    task: Task = None,
    nodes: Annotated[int, typer.Option(min=1, help="SuperNodes to start.")] = 4,
    method: Annotated[str | None, typer.Option(help="A row of `adagq methods`; default: adagq-auto.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds at most.")] = None,
    slow: Annotated[str, typer.Option(help="Nodes that train longer, NODE=SECONDS: 3=10 is node 3 by 10 s.")] = "",
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt, and authenticate nodes.")] = False,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="New run directory; default: the next free one under runs/.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out where it stopped.")] = False,
    logs: Annotated[Path | None, typer.Option(help="Keep Flower's logs and files in this folder.")] = None,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, train, and leave nothing running."""
    from adagq.core.extras import need

    need("flwr", "flower")
    from adagq.flower.local.deploy import deploy as run
    from adagq.flower.local.deploy import deployed_config

    options = given_settings(**{"task": own_task(task), "method": method, "training.max_rounds": rounds})
    resolved = deployed_config(settings_file(config), [*(settings or []), *options], nodes)
    out = run_directory(out, "deploy", resume)
    typer.echo(f"starting a SuperLink and {nodes} SuperNodes", err=True)
    steps = run(resolved, out, tls=tls, resume=resume, logs=logs, slow=slow)
    follow(steps, 1, resolved.training.max_rounds, f"--resume --out {out}")
    show_report(out)


@deploy.command("keys")
def keys(
    folder: Annotated[Path, typer.Argument(help="A new folder for the files; only its owner may read it.")],
    host: Annotated[list[str], typer.Option(help="Name or address by which nodes reach the SuperLink; repeatable.")],
    nodes: Annotated[int, typer.Option(min=1, help="Key pairs to make.")] = 3,
    days: Annotated[int, typer.Option(min=1, help="That the certificates are valid.")] = 365,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Of the SuperLink.")] = 8000,
) -> None:
    """Make all that a federation on several machines needs for TLS and node authentication."""
    from adagq.core.extras import need

    need("flwr", "flower")
    from adagq.flower.local.keys import make_keys

    for line in make_keys(folder, host, nodes, days, port):
        typer.echo(line)
