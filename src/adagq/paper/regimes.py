"""Where compression stops paying: the map of `adagq plan`, and simulated runs set upon it.

A cell's key is "slowest uplink, Mbit/s / seconds of a local epoch". What is saved is the share of time by which the
fastest compressed method beats the fastest uncompressed one, in the plan and in the runs alike.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adagq.core.atomic import replacing
from adagq.experiments.plan import plan, sweep
from adagq.experiments.plan_input import PlanInput
from adagq.experiments.predicted_bits import is_compressed
from adagq.paper.cells import Cell, read_cell
from adagq.report.palette import REFERENCE
from adagq.report.units import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPREAD = 4.0  # fastest uplink over the slowest


@dataclass(frozen=True)
class Point:
    """One pair of uplink and compute time: what was predicted and what came out."""

    uplink_mbps: float
    compute_seconds: float
    predicted: float
    measured: float | None  # None: not run, or nothing reached the target
    fastest_plain: str = ""
    fastest_compressed: str = ""


def write_regimes(name: str, title: str, params: float, cells: Mapping[str, Path], out: Path) -> list[Path]:
    """Write `<name>.md`, `.json`, `.svg` and `.png` into `out`; return their paths."""
    from adagq.report.canvas import drawn, save

    points = [_point(key, params, read_cell(key, path)) for key, path in cells.items()]
    figure = drawn(lambda: _draw(points, params), f"payloads counted as {params / 1e6:.2f} M parameters")
    paths = [save(figure, out / f"{name}.{kind}") for kind in ("svg", "png")]
    pages = {"md": _page(name, title, points), "json": json.dumps([asdict(p) for p in points], indent=1) + "\n"}
    for kind, text in pages.items():
        with replacing(out / f"{name}.{kind}") as file:
            file.write(text.encode())
        paths.append(out / f"{name}.{kind}")
    return paths


def _point(key: str, params: float, cell: Cell) -> Point:
    uplink, compute = map(float, key.split("/"))
    predicted = plan(_given(params, uplink, compute)).saved
    times = {
        method: seconds
        for method in cell.methods
        if method != REFERENCE and (seconds := cell.quantity(method, "seconds")) is not None
    }
    compressed = {method: cell.config is not None and is_compressed(cell.config.row(method)) for method in times}
    plain, coded = (
        min((method for method in times if compressed[method] is way), key=times.__getitem__, default="")
        for way in (False, True)
    )
    measured = 1.0 - times[coded] / times[plain] if plain and coded else None
    return Point(uplink, compute, predicted, measured, plain, coded)


def _given(params: float, uplink: float, compute: float) -> PlanInput:
    return PlanInput(params=params, uplink_mbps=(uplink, SPREAD * uplink), compute_seconds=compute)


def _page(name: str, title: str, points: Sequence[Point]) -> str:
    lines = [f"# {title}", "", f"![{title}]({name}.svg)", ""]
    lines += [
        "| slowest uplink, Mbit/s | epoch, s | predicted | simulated | fastest uncompressed | fastest compressed |",
        "| ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for p in points:
        measured = "not run" if p.measured is None else percent(p.measured)
        row = (f"{p.uplink_mbps:g}", f"{p.compute_seconds:g}", percent(p.predicted), measured)
        lines.append(f"| {' | '.join((*row, p.fastest_plain, p.fastest_compressed))} |")
    return "\n".join(lines) + "\n"


def _draw(points: Sequence[Point], params: float) -> "Figure":
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    rates = [10 ** (step / 10) for step in range(-6, 31)]
    seconds = [10 ** (step / 10) for step in range(-2, 25)]
    saved = sweep(_given(params, 1.0, 1.0), rates, seconds).saved
    table: Any = [list(line) for line in zip(*saved, strict=True)]
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    look: dict[str, Any] = {"cmap": "BrBG", "norm": TwoSlopeNorm(0.0, -1.0, 1.0), "shading": "nearest"}
    image = axes.pcolormesh(rates, seconds, table, **look)
    axes.contour(rates, seconds, table, levels=[0.05], colors="black", linewidths=1.0)
    for p in points:
        if p.measured is not None:
            text = f"{100 * p.measured:.0f} %"
            box = {"boxstyle": "round", "fc": "white", "ec": "#555d6b", "alpha": 0.9}
            axes.text(p.uplink_mbps, p.compute_seconds, text, ha="center", va="center", fontsize=8, bbox=box)
    axes.set(xscale="log", yscale="log", xlabel="slowest uplink (Mbit/s)", ylabel="local epoch (s)")
    axes.set_title("time saved: predicted (colour), simulated (boxes); the line is 5 %", fontsize=9)
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, format=PercentFormatter(1.0, decimals=0, symbol=" %"), label="predicted")
    return figure
