"""The paper's tables and figures, from settings files alone: cells, scales, exhibits.

    experiments/exhibits.toml         every table and figure: its kind, its title, its cells
    experiments/<cell>.toml           one run of several methods, at the paper's size: `adagq compare` runs it as it is
    experiments/scales/<scale>.toml   what is smaller: overlays on the cells whose names match
    experiments/numbers.toml          what the paper measured

A cell's run directory is `<out>/<cell>`; exhibits that share a cell share its run. Cells that differ in their fleets
alone share the training of the methods that adapt to nothing (`backends.remembered`).
"""

import json
import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from adagq.config import Config, read_toml, resolve
from adagq.errors import ConfigError
from adagq.experiment import Step, compared, run, runs_left
from adagq.run_directory import ROWS

ALL: Final = "all"
MEMORY: Final = ".memory"


@dataclass(frozen=True)
class Cell:
    """One settings file, at one scale."""

    name: str
    config: Config

    @property
    def training(self) -> str:
        """All that the training of a method depends on that adapts to nothing."""
        config = self.config
        return repr((config.seed, config.seeds, config.training, config.task))


@dataclass(frozen=True)
class Reproduction:
    """Exhibits and the cells that they need, in order."""

    exhibits: dict[str, Mapping[str, Any]]
    cells: dict[str, Cell]
    numbers: Mapping[str, Any]
    shared: frozenset[str] = frozenset()  # cells whose training others need too

    def runs_left(self, out: Path) -> int:
        """Return how many runs are not at their end in `out`."""
        return sum(len(runs_left(cell.config, out / cell.name)) for cell in self.cells.values())

    @property
    def max_rounds(self) -> int:
        return max(cell.config.training.max_rounds for cell in self.cells.values())


def load(folder: Path, names: Sequence[str], scale: str, settings: Mapping[str, Any] | None = None) -> Reproduction:
    """Return what `names` need at this scale; `settings` (such as seeds) go on top of every cell."""
    if not (folder / "exhibits.toml").is_file():
        raise ConfigError(f"{folder}: no exhibits.toml there; run in a checkout of adagq, or give --experiments")
    known = read_toml(folder / "exhibits.toml")
    for name in names:
        if name != ALL and name not in known:
            near = get_close_matches(name, [*known, ALL], 1, 0.0)
            raise ConfigError(f"unknown exhibit {name!r}: did you mean {near[0]!r}? Known: {', '.join(known)}, {ALL}")
    overlays = _overlays(folder, scale)
    every: dict[str, Cell] = {}
    for name in (cell for exhibit in known.values() for cell in exhibit["cells"].values()):
        tree = read_toml(folder / f"{name}.toml")
        for pattern, changes in overlays:
            if fnmatchcase(name, pattern):
                tree = _merged(tree, changes)
        every[name] = Cell(name, compared(resolve(tree | dict(settings or {}), folder)))
    chosen = {name: known[name] for name in known if name in names or ALL in names}
    needed = [cell for exhibit in chosen.values() for cell in exhibit["cells"].values()]
    uses = Counter(cell.training for cell in every.values())
    shared = frozenset(name for name, cell in every.items() if uses[cell.training] > 1)
    return Reproduction(chosen, {name: every[name] for name in needed}, read_toml(folder / "numbers.toml"), shared)


def reproduce(plan: Reproduction, out: Path, workers: int = 1, resume: bool = False) -> Iterator[Step]:
    """Run every cell into `out`; yield after each round. A cell that is complete is left as it is with `resume`."""
    for cell in plan.cells.values():
        if resume and not runs_left(cell.config, out / cell.name):  # needs no checkpoint to be left alone
            continue
        memory = out / MEMORY if cell.name in plan.shared else None
        for step in run(cell.config, out / cell.name, workers, resume, memory):
            yield replace(step, cell=cell.name)


def directories(exhibit: Mapping[str, Any], out: Path) -> dict[str, Path]:
    """Return the run directories of an exhibit's cells, those that have rows."""
    cells = {key: out / name for key, name in exhibit["cells"].items()}
    return {key: path for key, path in cells.items() if (path / ROWS).is_file()}


def note_origin(out: Path, command: Sequence[str], cells: Sequence[str]) -> None:
    """Add to `<out>/origin.jsonl` which command, commit and versions these cells were made with."""
    if not out.is_dir():
        return
    origin = {
        "command": " ".join(command),
        "commit": _commit(),
        "cells": list(cells),
        "python": platform.python_version(),
        **{name: version(name) for name in ("adagq", "numpy", "numba", "torch")},
    }
    with (out / "origin.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(origin) + "\n")


def _commit() -> str | None:
    """Return the commit of this source tree, with a mark if sources or settings differ; None outside a checkout."""
    if shutil.which("git") is None:
        return None
    commit = _git("rev-parse", "HEAD").stdout.strip()
    changed = bool(commit) and _git("diff", "--quiet", "HEAD", "--", ":/src", ":/experiments").returncode != 0
    return f"{commit}-dirty" if changed else commit or None


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    here = Path(__file__).parent
    return subprocess.run(["git", "-C", here, *arguments], capture_output=True, text=True, check=False)


def _overlays(folder: Path, scale: str) -> list[tuple[str, dict[str, Any]]]:
    path = folder / "scales" / f"{scale}.toml"
    if not path.is_file():
        known = sorted(file.stem for file in (folder / "scales").glob("*.toml"))
        raise ConfigError(f"unknown scale {scale!r}; known: {', '.join(known)}")
    return [(overlay.pop("cells"), overlay) for overlay in read_toml(path).get("overlay", [])]


def _merged(tree: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `tree` with `changes` on top, tables merged key by key."""
    merged = dict(tree)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
