"""`adagq train`, `adagq compare` and `adagq report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adagq.cli.common import (
    ConfigFile,
    FleetFile,
    Out,
    Resume,
    Seeds,
    Settings,
    Task,
    Tensorboard,
    Track,
    Workers,
    check_diverged,
    check_extras,
    fleet_setting,
    follow,
    given_settings,
    names_in,
    own_task,
    run_directory,
    settings_file,
    show_report,
    tracked,
    worker_count,
)

if TYPE_CHECKING:
    from adagq.experiments.config import Config


def train(
    config: ConfigFile = None,
    task: Task = None,
    method: Annotated[str | None, typer.Option(help="A row of `adagq methods`; default: adagq-auto.")] = None,
    seeds: Seeds = None,
    fleet: FleetFile = None,
    settings: Settings = None,
    workers: Workers = None,
    out: Out = None,
    resume: Resume = False,
    tensorboard: Tensorboard = False,
    track: Track = None,
) -> None:
    """Run one method to its target accuracy."""
    from adagq.experiments.config import load_config

    options = given_settings(task=own_task(task), seeds=seeds, method=method)
    resolved = load_config(settings_file(config), [*fleet_setting(fleet), *(settings or []), *options])
    resolved = resolved.model_copy(update={"methods": (resolved.method,)})
    _run(resolved, run_directory(out, "train", resume), worker_count(workers), resume, tensorboard, track or [])


def compare(
    config: ConfigFile = None,
    task: Task = None,
    methods: Annotated[
        str | None, typer.Option(help="Rows of `adagq methods`: a,b,…, or all; default: those of the paper.")
    ] = None,
    seeds: Seeds = None,
    fleet: FleetFile = None,
    settings: Settings = None,
    workers: Workers = None,
    out: Out = None,
    resume: Resume = False,
    tensorboard: Tensorboard = False,
    track: Track = None,
) -> None:
    """Run several methods to the same target and compare rounds, bytes and virtual time."""
    from adagq.experiments.config import load_config
    from adagq.experiments.runner import compared
    from adagq.methods.table import METHODS

    names = None if methods is None else names_in(methods)
    if names == ["all"]:
        names = list(METHODS)
    options = given_settings(task=own_task(task), seeds=seeds, methods=names)
    resolved = compared(load_config(settings_file(config), [*fleet_setting(fleet), *(settings or []), *options]))
    _run(resolved, run_directory(out, "compare", resume), worker_count(workers), resume, tensorboard, track or [])


def report(
    run_dir: Annotated[Path, typer.Argument(help="A run directory.")],
    target: Annotated[
        float | None,
        typer.Option(help="Accuracy above 0 and at most 1, in place of the run's own; default without one: its best."),
    ] = None,
    tensorboard: Tensorboard = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="Also write rows.parquet and ledger.parquet.")] = False,
) -> None:
    """Rebuild summary.json, the tables, report.html and the figures of a run from its rows."""
    check_extras(tensorboard)
    if parquet:
        from adagq.report.parquet import require_parquet, write_parquet

        require_parquet()
    show_report(run_dir, tensorboard, target)
    if parquet:
        for path in write_parquet(run_dir):
            typer.echo(path)


def _run(config: "Config", out: Path, workers: int | str, resume: bool, tensorboard: bool, track: list[str]) -> None:
    from adagq.experiments.run_directory import ROWS
    from adagq.experiments.runner import run, runs_left
    from adagq.report.trackers import tracker

    check_extras(tensorboard)
    steps = tracked(run(config, out, workers, resume), [tracker(name) for name in track])
    follow(steps, len(runs_left(config, out)), config.training.max_rounds, f"--resume --out {out}")
    if (out / ROWS).is_file():
        show_report(out, tensorboard)
    check_diverged(config, out)
