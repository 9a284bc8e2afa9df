"""The paper's tables and figures, from settings files alone: experiments, scales, exhibits.

    experiments/exhibits.toml         every table and figure: its kind, its title, the experiment behind each cell
    experiments/<name>.toml           one run of several methods, at the paper's size: `adagq compare <name>`
    experiments/scales/<scale>.toml   what is smaller: overlays on the experiments whose names match; `cells` if it has
                                      not all of them; `milestones` of experiments whose runs take turns (turns.py)
    experiments/numbers.toml          what the paper measured

An experiment's run directory is `<out>/<name>`; exhibits that share an experiment share its run. Experiments that
differ in their fleets alone share the training of the methods that adapt to nothing (`simulation.cache`).
"""

import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from adagq.core.errors import ConfigError
from adagq.core.jsonl import append_lines
from adagq.core.registry import suggestion
from adagq.experiments.config import Config, merged, read_toml, resolve
from adagq.experiments.run_directory import ROWS
from adagq.experiments.runner import Step, compared, run, runs_left
from adagq.paper.turns import run_in_turns

ALL: Final = "all"
MEMORY: Final = ".memory"
EXPERIMENTS: Final = Path(__file__).parent / "experiments"


@dataclass(frozen=True)
class Experiment:
    """One settings file, at one scale."""

    name: str
    config: Config
    milestones: tuple[float, ...] = ()  # accuracies at which its runs take turns

    @property
    def training(self) -> str:
        """All that the training of a method depends on that adapts to nothing."""
        config = self.config
        return repr((config.seed, config.seeds, config.training, config.task))


@dataclass(frozen=True)
class Reproduction:
    """Exhibits and the experiments that they need, in order."""

    exhibits: dict[str, Mapping[str, Any]]
    experiments: dict[str, Experiment]
    numbers: Mapping[str, Any]
    shared: frozenset[str] = frozenset()  # experiments whose training others need too

    def runs_left(self, out: Path) -> int:
        """Return how many runs are not at their end in `out`."""
        return sum(len(runs_left(each.config, out / each.name)) for each in self.experiments.values())

    def milestones(self, exhibit: str) -> dict[str, tuple[float, ...]]:
        """Return the milestones of an exhibit's cells, of those whose runs take turns."""
        cells = {key: self.experiments[name] for key, name in self.exhibits[exhibit]["cells"].items()}
        return {key: cell.milestones for key, cell in cells.items() if cell.milestones}

    @property
    def max_rounds(self) -> int:
        """The most rounds that a run may take."""
        return max(each.config.training.max_rounds for each in self.experiments.values())


def settings_names(folder: Path) -> list[str]:
    """Return the names of the settings files in a folder that `adagq compare` can run."""
    return sorted(path.stem for path in folder.glob("*.toml") if path.stem not in ("exhibits", "numbers"))


def load(folder: Path, names: Sequence[str], scale: str, settings: Mapping[str, Any] | None = None) -> Reproduction:
    """Return what `names` need at this scale; `settings` (such as seeds) go on top of every experiment."""
    if not (folder / "exhibits.toml").is_file():
        raise ConfigError(f"{folder}: no exhibits.toml there; give another --experiments")
    known = read_toml(folder / "exhibits.toml")
    for name in names:
        if name != ALL and name not in known:
            hint = suggestion(name, [*known, ALL])
            raise ConfigError(f"unknown exhibit {name!r}: {hint} Known: {', '.join(known)}, {ALL}")
    cells, overlays = _scale(folder, scale)
    every: dict[str, Experiment] = {}
    for name in cells or _needed(known.values()):
        tree = read_toml(folder / f"{name}.toml")
        for pattern, changes in overlays:
            if fnmatchcase(name, pattern):
                tree = merged(tree, changes)
        milestones = tuple(tree.pop("milestones", ()))
        every[name] = Experiment(name, compared(resolve(tree | dict(settings or {}), folder)), milestones)
    chosen: dict[str, Mapping[str, Any]] = {
        name: {**row, "cells": own}
        for name, row in known.items()
        if (name in names or ALL in names)
        and (own := {key: cell for key, cell in row["cells"].items() if cell in every})
    }
    uses = Counter(experiment.training for experiment in every.values())
    shared = frozenset(name for name, experiment in every.items() if uses[experiment.training] > 1)
    if not chosen:
        raise ConfigError(f"the scale {scale!r} has no cell of {', '.join(names)}; it has {', '.join(cells)}")
    asked = set(_needed(chosen.values()))
    needed = {name: experiment for name, experiment in every.items() if name in asked}
    return Reproduction(chosen, needed, read_toml(folder / "numbers.toml"), shared)


def reproduce(
    plan: Reproduction, out: Path, workers: int | str = 1, resume: bool = False, only: Sequence[str] = ()
) -> Iterator[Step]:
    """Run every experiment into `out`; yield after each round. With `resume` a complete one is left as it is.

    `only` names the methods to run, of experiments whose runs take turns.
    """
    _check_only(plan, only)
    for experiment in plan.experiments.values():
        directory = out / experiment.name
        if resume and not runs_left(experiment.config, directory):  # needs no checkpoint to be left alone
            continue
        if experiment.milestones:
            for step in run_in_turns(experiment.config, experiment.milestones, directory, workers, resume, only):
                yield replace(step, cell=experiment.name)
            continue
        memory = out / MEMORY if experiment.name in plan.shared else None
        for step in run(experiment.config, directory, workers, resume, memory):
            yield replace(step, cell=experiment.name)


def _check_only(plan: Reproduction, only: Sequence[str]) -> None:
    for experiment in plan.experiments.values() if only else ():
        if not experiment.milestones:
            raise ConfigError(f"--methods: the runs of {experiment.name} do not take turns at this scale; leave it out")
        known = experiment.config.methods
        for name in set(only) - set(known):
            raise ConfigError(f"--methods: {experiment.name} has no {name!r}; {suggestion(name, known)}")


def directories(exhibit: Mapping[str, Any], out: Path) -> dict[str, Path]:
    """Return the run directories of an exhibit's cells, those that have rows."""
    cells = {key: out / name for key, name in exhibit["cells"].items()}
    return {key: path for key, path in cells.items() if (path / ROWS).is_file()}


def note_origin(out: Path, command: Sequence[str], experiments: Sequence[str], seconds: float = 0.0) -> None:
    """Add to `<out>/origin.jsonl` which command, commit and versions these experiments were made with, and how long."""
    if not out.is_dir():
        return
    origin = {
        "command": " ".join(command),
        "commit": _commit(),
        "cells": list(experiments),
        "wall_seconds": round(seconds, 1),
        "python": platform.python_version(),
        **{name: version(name) for name in ("adagq", "numpy", "numba", "torch")},
    }
    append_lines(out / "origin.jsonl", [origin])


def _needed(exhibits: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return (experiment for exhibit in exhibits for experiment in exhibit["cells"].values())


def _commit() -> str | None:
    """Return the commit of this source tree, with a mark if sources or settings differ; None outside a checkout."""
    if shutil.which("git") is None:
        return None
    commit = _git("rev-parse", "HEAD").stdout.strip()
    changed = bool(commit) and _git("diff", "--quiet", "HEAD", "--", ":/src").returncode != 0
    return f"{commit}-dirty" if changed else commit or None


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    here = Path(__file__).parent
    return subprocess.run(["git", "-C", here, *arguments], capture_output=True, text=True, check=False)


def _scale(folder: Path, scale: str) -> tuple[list[str], list[tuple[str, dict[str, Any]]]]:
    """Return the experiments that a scale has (none named: all) and its overlays, each with the names it is for."""
    path = folder / "scales" / f"{scale}.toml"
    if not path.is_file():
        known = sorted(file.stem for file in (folder / "scales").glob("*.toml"))
        raise ConfigError(f"unknown scale {scale!r}; known: {', '.join(known)}")
    tree = read_toml(path)
    return tree.get("cells", []), [(overlay.pop("cells"), overlay) for overlay in tree.get("overlay", [])]
