"""What several commands share: their options, where settings and results lie, and a run with its progress."""

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adagq.core.machine import cores

if TYPE_CHECKING:
    from adagq.experiments.config import Config
    from adagq.experiments.runner import Step
    from adagq.report.trackers import Logger

ConfigFile = Annotated[
    Path | None,
    typer.Argument(help="Settings as TOML, on top of the defaults; or one of adagq's own, such as fashion."),
]
Settings = Annotated[list[str] | None, typer.Option("--set", help="key=value on top of the settings; repeatable.")]
Task = Annotated[
    str | None, typer.Option(help="Your own model and data: my.py:build, a function that returns a population.")
]
Workers = Annotated[
    str | None,
    typer.Option(
        help="Worker processes, default: one per core; or a Ray cluster: ray, ray:HOST:PORT, ray://HOST:PORT."
    ),
]
Out = Annotated[Path | None, typer.Option(help="New run directory; default: the next free one under runs/.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in --out; it takes more methods and seeds.")]
Seeds = Annotated[int | None, typer.Option(min=1, help="How many seeds: seed, seed + 1, …")]
Tensorboard = Annotated[bool, typer.Option("--tensorboard", help="Also write event files for TensorBoard.")]
Track = Annotated[
    list[str] | None, typer.Option(help="Also log every round to mlflow or wandb; repeatable. See docs/simulation.md.")
]
FleetFile = Annotated[Path | None, typer.Option("--fleet", help="A fleet file, such as `adagq fleet from-csv` writes.")]
INTERRUPTED = 130


def settings_file(given: Path | None) -> Path | None:
    """Return the settings file: as given, or the one of this name among adagq's own."""
    if given is None or given.exists() or given.name != str(given) or given.suffix == ".toml":
        return given
    from adagq.core.errors import ConfigError
    from adagq.core.registry import suggestion
    from adagq.paper.reproduce import EXPERIMENTS, settings_names

    known = settings_names(EXPERIMENTS)
    if given.name not in known:
        hint = suggestion(given.name, known)
        raise ConfigError(f"{given}: neither a file nor one of adagq's own settings; {hint} Known: {', '.join(known)}")
    return EXPERIMENTS / f"{given.name}.toml"


def given_settings(**options: object) -> list[str]:
    """Return the options that were given, as settings."""
    return [f"{key}={value!r}" for key, value in options.items() if value is not None]


def own_task(task: str | None) -> str | None:
    """Return `--task` as other processes understand it; its file is found from here."""
    from adagq.core.modules import absolute_reference

    return None if task is None else absolute_reference(task, Path(), "--task")


def worker_count(workers: str | None) -> int | str:
    """Return the number of worker processes, as asked or one for each core that this process may use; or a cluster."""
    if workers is None:
        return cores()
    if workers.startswith("ray"):
        from adagq.simulation.ray_pool import address_of

        address_of(workers)  # an error now, before any work
        return workers
    if not workers.isascii() or not workers.isdigit() or int(workers) < 1:
        raise typer.BadParameter(f"{workers!r} is neither a number from 1 on nor a Ray cluster", param_hint="--workers")
    return int(workers)


def run_directory(out: Path | None, command: str, resume: bool) -> Path:
    """Return where the run goes: as asked, or the first place under runs/ that is free."""
    from adagq.core.errors import CheckpointError, ConfigError

    if resume and out is None:
        raise ConfigError("--resume: which run? Name its directory with --out")
    if resume and out is not None and not (out / "config.toml").is_file():
        raise CheckpointError(f"{out}: holds no run, so it cannot be continued; check --out, or leave --resume out")
    return out or next(path for number in count(1) if not (path := Path("runs") / f"{command}-{number}").exists())


def check_extras(tensorboard: bool) -> None:
    """Find out before any work what an option needs and is not installed."""
    if tensorboard:
        from adagq.report.tensorboard import require_tensorboard

        require_tensorboard()


def fleet_setting(fleet: Path | None) -> list[str]:
    """Return the setting that names a fleet file; it is relative to where the command runs."""
    return [] if fleet is None else [f"fleet={str(fleet.absolute())!r}"]


def tracked(steps: "Iterable[Step]", trackers: "list[Logger]") -> "Iterator[Step]":
    """Yield the steps, each logged to every tracker."""
    try:
        for step in steps:
            for log in trackers:
                log(step.row)
            yield step
    finally:
        for log in trackers:
            log.close()


def follow(steps: "Iterable[Step]", runs: int, max_rounds: int, again: str) -> None:
    """Run to the end and show progress; `again` is how to continue after an interrupt."""
    from rich.console import Console

    from adagq.cli.terminal import show

    console = Console(stderr=True)
    try:
        show(steps, runs, max_rounds, console)
    except KeyboardInterrupt:
        console.print(f"stopped; continue with {again}", highlight=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None


def check_diverged(config: "Config", out: Path) -> None:
    """Say which runs diverged, if any did; nothing else ends a run before its end."""
    from adagq.api import diverged_runs, divergence_text, warn_of_rising_loss
    from adagq.core.errors import DivergedError

    warn_of_rising_loss(config, out)
    if diverged := diverged_runs(config, out):
        raise DivergedError(divergence_text(config, diverged))


def show_report(run_dir: Path, tensorboard: bool = False, target: float | None = None) -> None:
    """Print the table of a run, write its report and say where the page is."""
    from rich.console import Console

    from adagq.core.extras import installed
    from adagq.report import write_tensorboard
    from adagq.report.result import Result

    result = Result(run_dir, target=target)
    Console().print(result.table())
    if tensorboard:
        write_tensorboard(run_dir)
    if installed("jinja2", "matplotlib"):
        typer.echo(result.report())
    else:
        typer.echo(f'for the page and its figures: pip install "adagq[report]", then adagq report {run_dir}', err=True)


def names_in(given: str | None) -> list[str]:
    """Return the names of a comma-separated option; none if it was not given."""
    return [name.strip() for name in (given or "").split(",") if name.strip()]
