"""`adagq deploy`: real federations."""

from pathlib import Path
from typing import Annotated

import typer

deploy = typer.Typer(name="deploy", help="Run real federations on Flower.", no_args_is_help=True)


@deploy.command("local")
def local(
    config: Annotated[Path | None, typer.Argument(help="Settings as TOML; without: digits.")] = None,
    nodes: Annotated[int, typer.Option(min=1, help="SuperNodes to start.")] = 4,
    method: Annotated[str | None, typer.Option(help="A row of the table of methods.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds at most.")] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt, and let in registered nodes only.")] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value on top of the settings.")] = None,
    out: Annotated[Path | None, typer.Option(help="New run directory; default: the next free one under runs/.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out where it stopped.")] = False,
    logs: Annotated[Path | None, typer.Option(help="Keep Flower's logs and files in this folder.")] = None,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, train, and leave nothing running."""
    from rich.console import Console

    from adagq.cli import _free, _given, _report
    from adagq.deployment.local import deploy as run
    from adagq.deployment.local import deployed_config
    from adagq.terminal import show

    options = _given(method=method) + ([] if rounds is None else [f"training.max_rounds={rounds}"])
    resolved = deployed_config(config, [*(settings or []), *options], nodes)
    out = out or _free("deploy")
    console = Console(stderr=True)
    console.print(f"starting a SuperLink and {nodes} SuperNodes", highlight=False)
    try:
        show(run(resolved, out, tls=tls, resume=resume, logs=logs), 1, resolved.training.max_rounds, console)
    except KeyboardInterrupt:
        console.print(f"stopped; continue with --resume --out {out}", highlight=False)
        raise typer.Exit(130) from None
    _report(out, tensorboard=False)
