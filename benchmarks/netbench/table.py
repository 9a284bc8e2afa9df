"""The table of `make netbench`: seconds to the target of every row and scene, measured and predicted."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scenes import FLOWERS_OWN, ROWS, SCENES, TARGET

Files = list[dict[str, Any]]


def table(folder: Path) -> str:
    """Return a table in Markdown for every scene that has runs."""
    return "\n\n".join(_scene(folder / name) for name in SCENES if (folder / name).is_dir())


def to_target(rounds: list[dict[str, Any]]) -> tuple[float, int] | None:
    """Return the second and the round in which the target was reached; None if it was not."""
    return next(((line["seconds"], line["round"]) for line in rounds if line["accuracy"] >= TARGET), None)


def _scene(folder: Path) -> str:
    lines = [
        f"{folder.name}, to {TARGET:.0%}:\n",
        "| row | runs | s | rounds | MB up | of Flower's FedAvg | predicted s | off |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    measured = {row: _files(folder, "measured", row) for row in _rows(folder)}
    reference = _times(measured.get(FLOWERS_OWN, {}))
    for row, files in measured.items():
        lines.append(_line(folder, row, files, reference))
    return "\n".join(lines)


def _line(folder: Path, row: str, files: dict[int, dict[str, Any]], reference: dict[int, float]) -> str:
    times = _times(files)
    rounds = [found[1] for file in files.values() if (found := to_target(file["rounds"])) is not None]
    up = [file["upload_bytes"] / 1e6 for file in files.values() if "upload_bytes" in file]
    predicted = _times(_files(folder, "predicted", row))
    both = [seed for seed in times if seed in predicted]
    off = [predicted[seed] / times[seed] - 1 for seed in both]
    shares = [times[seed] / reference[seed] for seed in times if seed in reference]
    cells = [
        row,
        f"{len(times)} of {len(files)}",
        _spread(list(times.values()), ".1f"),
        _spread(rounds, ".1f"),
        _spread(up, ".1f"),
        _spread(shares, ".2f"),
        _spread([predicted[seed] for seed in both], ".1f"),
        f"{fmean(off):+.1%}" if off else "",
    ]
    return f"| {' | '.join(cells)} |"


def _rows(folder: Path) -> list[str]:
    there = {path.stem.removeprefix("measured-").rpartition("-")[0] for path in folder.glob("measured-*.json")}
    return [row for row in ROWS if row in there] + sorted(there - set(ROWS))


def _files(folder: Path, kind: str, row: str) -> dict[int, dict[str, Any]]:
    paths = {int(path.stem.rpartition("-")[2]): path for path in folder.glob(f"{kind}-*.json")}
    names = {seed: folder / f"{kind}-{row}-{seed}.json" for seed in paths}
    return {seed: json.loads(path.read_text("utf-8")) for seed, path in sorted(names.items()) if path.is_file()}


def _times(files: dict[int, dict[str, Any]]) -> dict[int, float]:
    return {seed: found[0] for seed, file in files.items() if (found := to_target(file["rounds"])) is not None}


def _spread(values: list[float], form: str) -> str:
    if not values:
        return ""
    return f"{fmean(values):{form}}" + (f" ± {stdev(values):{form}}" if len(values) > 1 else "")
