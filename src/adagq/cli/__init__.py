"""The `adagq` command: commands only; what they do is in the modules that they import when called."""

import os
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adagq import __version__
from adagq.cli.data import data
from adagq.cli.deploy import deploy
from adagq.cli.load import bench_server
from adagq.cli.reproduce import reproduce
from adagq.errors import AdagqError

if TYPE_CHECKING:
    from adagq.config import Config

app = typer.Typer(
    name="adagq",
    help="Federated learning, fast over slow and unequal links.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(name="bench", help="Measure this machine; prints ratios.", no_args_is_help=True)
app.add_typer(bench)
bench.command("server")(bench_server)
app.add_typer(deploy)
app.add_typer(data)

ConfigFile = Annotated[Path | None, typer.Argument(help="Settings as TOML; without: digits on the paper's fleet.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="key=value on top of the settings; repeatable.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one per core.")]
Out = Annotated[Path | None, typer.Option(help="New run directory; default: the next free one under runs/.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in --out; it takes more methods and seeds.")]
Seeds = Annotated[int | None, typer.Option(min=1, help="How many seeds: seed, seed + 1, …")]
Tensorboard = Annotated[bool, typer.Option("--tensorboard", help="Also write event files for TensorBoard.")]


def main() -> None:
    """Run the command; a user's mistake is one line on stderr and exit code 2."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except AdagqError as error:
        print(f"adagq: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:  # nobody expected it: a full disk behind standard output, or no temporary folder
        place = f"{error.filename}: " if error.filename else ""
        print(f"adagq: {place}{error.strerror or error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what could not be written is not tried again at the exit
        sys.exit(2)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
) -> None:
    if version:
        typer.echo(f"adagq {__version__}")
        raise typer.Exit


@app.command()
def train(
    config: ConfigFile = None,
    method: Annotated[str | None, typer.Option(help="A row of the table of methods.")] = None,
    seeds: Seeds = None,
    settings: Settings = None,
    workers: Workers = None,
    out: Out = None,
    resume: Resume = False,
    tensorboard: Tensorboard = False,
) -> None:
    """Run one method (adagq-fit unless told otherwise) to its target accuracy."""
    from adagq.config import load_config

    resolved = load_config(config, [*(settings or []), *_given(seeds=seeds, method=method)])
    resolved = resolved.model_copy(update={"methods": (resolved.method,)})
    _run(resolved, out or _free("train"), workers, resume, tensorboard)


@app.command()
def compare(
    config: ConfigFile = None,
    methods: Annotated[str | None, typer.Option(help="Rows of the table of methods: a,b,…; default: all.")] = None,
    seeds: Seeds = None,
    settings: Settings = None,
    workers: Workers = None,
    out: Out = None,
    resume: Resume = False,
    tensorboard: Tensorboard = False,
) -> None:
    """Run several methods to the same target and compare rounds, bytes and virtual time."""
    from adagq.config import load_config
    from adagq.experiment import compared

    names = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    resolved = load_config(config, [*(settings or []), *_given(seeds=seeds, methods=names)])
    _run(compared(resolved), out or _free("compare"), workers, resume, tensorboard)


app.command()(reproduce)


@app.command()
def report(run_dir: Annotated[Path, typer.Argument(help="A run directory.")], tensorboard: Tensorboard = False) -> None:
    """Rebuild summary.json, report.html and the figures of a run from its rows."""
    _report(run_dir, tensorboard)


@app.command()
def plan(
    params: Annotated[str, typer.Option(help="Parameters of the model, such as 11.2M.")],
    uplink: Annotated[str, typer.Option(help="Slowest and fastest uplink, Mbit/s.")] = "5,20",
    downlink: Annotated[float, typer.Option(help="Mbit/s.")] = 70.0,
    compute: Annotated[float, typer.Option(help="Seconds of one local epoch.")] = 15.5,
    clients: Annotated[int, typer.Option(min=1)] = 20,
    heatmap: Annotated[Path | None, typer.Option(help="Draw time saved over rates and compute times here.")] = None,
) -> None:
    """Predict every method's round and say whether compression pays."""
    from rich.console import Console

    from adagq.planning import PlanInput, parse_count, parse_span
    from adagq.planning import plan as predict
    from adagq.terminal import draw_plan, plan_table

    given = PlanInput(
        params=parse_count(params),
        uplink_mbps=parse_span(uplink),
        downlink_mbps=downlink,
        compute_seconds=compute,
        clients=clients,
    )
    Console().print(plan_table(predict(given)))
    if heatmap is not None:
        typer.echo(draw_plan(given, heatmap))


@bench.command("codecs")
def bench_codecs() -> None:
    """Encode and decode every codec; times as ratios to memcpy."""
    from adagq.benchmarks.codecs import run

    run()


@bench.command("simulator")
def bench_simulator(
    workers: Annotated[int, typer.Option(min=1)] = 2,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
) -> None:
    """Compare the simulator with bare PyTorch loops that take the same SGD steps."""
    from adagq.benchmarks.simulator import run

    run(workers, rounds)


@bench.command("update")
def bench_update(
    config: ConfigFile = None,
    settings: Settings = None,
    save: Annotated[Path | None, typer.Option(help="Also write the numbers here, as JSON.")] = None,
) -> None:
    """Train one client for an epoch and measure what each method makes of its update."""
    from adagq.benchmarks.update import run
    from adagq.config import load_config

    run(load_config(config, settings or []), save)


@app.command()
def fuzz(
    payloads: Annotated[int, typer.Option(min=1, help="How many damaged payloads to decode.")] = 100_000,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Decode damaged payloads: each must be refused, or give finite numbers."""
    from adagq.codecs.fuzzing import run

    run(payloads, seed)


def _run(config: "Config", out: Path, workers: int | None, resume: bool, tensorboard: bool) -> None:
    from rich.console import Console

    from adagq.experiment import run, runs_left
    from adagq.terminal import show

    console = Console(stderr=True)
    steps = run(config, out, workers or len(os.sched_getaffinity(0)), resume)
    try:
        show(steps, len(runs_left(config, out)), config.training.max_rounds, console)
    except KeyboardInterrupt:
        console.print(f"stopped; continue with --resume --out {out}", highlight=False)
        raise typer.Exit(130) from None
    _report(out, tensorboard)


def _report(run_dir: Path, tensorboard: bool) -> None:
    import json

    from rich.console import Console

    from adagq.report import summary_table, write_report, write_tensorboard

    page = write_report(run_dir)
    Console().print(summary_table(json.loads((run_dir / "summary.json").read_text("utf-8"))))
    if tensorboard:
        write_tensorboard(run_dir)
    typer.echo(page)


def _given(**options: object) -> list[str]:
    """Return the options that were given as settings."""
    return [f"{key}={value!r}" for key, value in options.items() if value is not None]


def _free(name: str) -> Path:
    """Return the first run directory under runs/ that does not exist yet."""
    return next(path for number in count(1) if not (path := Path("runs") / f"{name}-{number}").exists())
