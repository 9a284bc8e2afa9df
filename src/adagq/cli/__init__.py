"""The `adagq` command: commands only; what they do is in the modules that they import when called."""

import os
import sys
from typing import Annotated

import typer

from adagq import __version__
from adagq.cli.advise import advise
from adagq.cli.bench import bench
from adagq.cli.data import data
from adagq.cli.deploy import deploy
from adagq.cli.fleet import fleet
from adagq.cli.fuzz import fuzz
from adagq.cli.leaderboard import leaderboard
from adagq.cli.lists import config, init, methods
from adagq.cli.node import node
from adagq.cli.pause import pause, resume
from adagq.cli.plan import plan
from adagq.cli.reproduce import reproduce
from adagq.cli.runs import compare, report, train
from adagq.cli.verify import verify
from adagq.cli.watch import watch
from adagq.core.errors import AdagqError, DivergedError

app = typer.Typer(
    name="adagq",
    help="Federated learning, fast over slow and unequal links.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    init, plan, advise, compare, train, report, watch, pause, resume, methods, config, reproduce, leaderboard,
    fuzz, verify,
):  # fmt: skip
    app.command()(command)
# Flags that are not ours are Flower's, `--help` included.
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})(node)
for group in (fleet, deploy, data, bench):
    app.add_typer(group)

MISTAKE, DIVERGED = 2, 3  # exit codes


def main() -> None:
    """Run the command; a user's mistake is one line on stderr and exit code 2, a diverged run exit code 3."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except AdagqError as error:
        print(f"adagq: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(DIVERGED if isinstance(error, DivergedError) else MISTAKE)
    except OSError as error:  # not foreseen: a full disk behind standard output, or no temporary folder
        place = f"{error.filename}: " if error.filename else ""
        print(f"adagq: {place}{error.strerror or error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what could not be written is not tried again at the exit
        sys.exit(MISTAKE)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
) -> None:
    if version:
        typer.echo(f"adagq {__version__}")
        raise typer.Exit
