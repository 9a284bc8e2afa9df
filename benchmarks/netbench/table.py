"""The table of `make netbench`: seconds to both targets of every row and scene, measured and predicted."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scenes import FLOWERS_OWN, ROWS, SCENES, TARGETS

Runs = dict[int, dict[str, Any]]  # seed -> one run's file
Reached = tuple[float, bool]  # seconds, and whether the target was reached then; else the run ended


def table(folder: Path) -> str:
    """Return a table in Markdown for every scene and target that has runs."""
    scenes = [folder / name for name in SCENES if (folder / name).is_dir()]
    return "\n\n".join(_table(scene, target) for scene in scenes for target in TARGETS)


def reached(rounds: list[dict[str, Any]], target: float) -> Reached:
    """Return the second in which the target was reached, or the last one of a run that ended before."""
    found = next((line["seconds"] for line in rounds if line["accuracy"] >= target), None)
    return (rounds[-1]["seconds"], False) if found is None else (found, True)


def _table(folder: Path, target: float) -> str:
    lines = [
        f"{folder.name}, to {target:.0%}:\n",
        "| row | runs | s | each | rounds | MB up | Flower's FedAvg takes | predicted s | off |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    reference = _times(_runs(folder, "measured", FLOWERS_OWN), target)
    for row in _rows(folder):
        measured, predicted = _runs(folder, "measured", row), _runs(folder, "predicted", row)
        lines.append(f"| {' | '.join([row, *_cells(measured, predicted, reference, target)])} |")
    return "\n".join(lines)


def _cells(measured: Runs, predicted: Runs, reference: dict[int, Reached], target: float) -> list[str]:
    times, said = _times(measured, target), _times(predicted, target)
    there = [seed for seed, (_, is_there) in times.items() if is_there]
    both = [seed for seed in there if seed in said and said[seed][1]]
    compared = [seed for seed in there if seed in reference]
    shares = [reference[seed][0] / times[seed][0] for seed in compared]
    bound = "" if all(reference[seed][1] for seed in compared) else "> "
    off = [said[seed][0] / times[seed][0] - 1 for seed in both]
    counted = [_until(measured[seed], target) for seed in there]
    return [
        f"{len(there)} of {len(measured)}",
        _spread([times[seed][0] for seed in there], ".1f"),
        ", ".join(f"{'' if is_there else '> '}{seconds:.0f}" for seconds, is_there in times.values()),
        _spread([float(rounds) for rounds, _ in counted], ".1f"),
        _spread([megabytes for _, megabytes in counted if megabytes], ".1f"),
        f"{bound}{_spread(shares, '.2f')} times" if shares else "",
        _spread([said[seed][0] for seed in both], ".1f"),
        f"{fmean(off):+.0%}" if off else "",
    ]


def _until(run: dict[str, Any], target: float) -> tuple[int, float]:
    """Return rounds and megabytes of updates up to the round that reached the target."""
    last = next(line["round"] for line in run["rounds"] if line["accuracy"] >= target)
    return last, sum(one["upload_bytes"] for one in run.get("exchanges", ()) if one["round"] <= last) / 1e6


def _rows(folder: Path) -> list[str]:
    there = {path.stem.removeprefix("measured-").rpartition("-")[0] for path in folder.glob("measured-*.json")}
    return [row for row in ROWS if row in there] + sorted(there - set(ROWS))


def _runs(folder: Path, kind: str, row: str) -> Runs:
    paths = {path.stem.removeprefix(f"{kind}-{row}-"): path for path in folder.glob(f"{kind}-{row}-*.json")}
    numbered = sorted((int(seed), path) for seed, path in paths.items() if seed.isdigit())
    return {seed: json.loads(path.read_text("utf-8")) for seed, path in numbered}


def _times(runs: Runs, target: float) -> dict[int, Reached]:
    return {seed: reached(run["rounds"], target) for seed, run in runs.items()}


def _spread(values: list[float], form: str) -> str:
    if not values:
        return ""
    return f"{fmean(values):{form}}" + (f" ± {stdev(values):{form}}" if len(values) > 1 else "")
