"""`adagq watch`: a run as it goes."""

import time
from pathlib import Path
from typing import Annotated

import typer


def watch(
    run: Annotated[Path, typer.Argument(help="A run directory, of a deployment or of a simulation.")],
    seconds: Annotated[float, typer.Option(min=0.1, help="Between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show it once and leave.")] = False,
    serve: Annotated[bool, typer.Option("--serve", help="As a page for a browser, kept fresh.")] = False,
    host: Annotated[str, typer.Option(help="Where to serve; other machines reach any but 127.0.0.1.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to serve; 0 takes a free one.")] = 8765,
    target: Annotated[float | None, typer.Option(help="Accuracy on the page; default: the run's, else 0.9.")] = None,
) -> None:
    """Show accuracy over time, what every node does, bytes and incidents, until Ctrl-C; changes nothing."""
    if serve:
        _serve(run, host, port, target)
        return
    from rich.console import Console
    from rich.live import Live

    from adagq.report.watch import view

    if once:
        Console().print(view(run))
        return
    with Live(view(run), auto_refresh=False) as live:
        try:
            while True:
                time.sleep(seconds)
                live.update(view(run), refresh=True)
        except KeyboardInterrupt:
            return


def _serve(run: Path, host: str, port: int, target: float | None) -> None:
    from adagq.core.extras import need

    need("jinja2", "report")
    from adagq.report.live import server

    with server(run, host, port, target) as listening:
        typer.echo(f"{run} at http://{host}:{listening.server_address[1]}/ until Ctrl-C")
        try:
            listening.serve_forever()
        except KeyboardInterrupt:
            return
