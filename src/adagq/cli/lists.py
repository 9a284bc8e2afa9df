"""`adagq methods`, `adagq config` and `adagq init`: what there is to choose from."""

from pathlib import Path
from typing import Annotated

import typer


def methods() -> None:
    """List the methods: what travels, who decides how much, and what each is."""
    from rich.console import Console

    from adagq.cli.terminal import methods_table
    from adagq.methods.table import METHODS

    Console().print(methods_table(METHODS.values()))


def config(
    part: Annotated[str, typer.Argument(help="Only keys that begin so, such as training or fleet.link.")] = "",
) -> None:
    """List every settings key with its type, default and meaning."""
    from rich.console import Console

    from adagq.cli.terminal import settings_table
    from adagq.experiments.settings_help import settings_under

    Console().print(settings_table(settings_under(part)))


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("adagq.toml"),
) -> None:
    """Write a settings file with every key, its default and its meaning; all of it commented out."""
    from adagq.core.atomic import replacing
    from adagq.core.errors import OutputError
    from adagq.experiments.settings_help import commented_toml

    if path.exists():
        raise OutputError(f"{path} is there already; nothing was written. Name another file")
    with replacing(path) as file:
        file.write(commented_toml().encode())
    typer.echo(f"{path}: uncomment what you want to change, then `adagq compare {path}`")
