"""The map of `adagq plan --heatmap FILE`: time saved, over uplink rates and compute times."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from adagq.core.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plan_heatmap(
    saved: ArrayLike,
    uplink_bps: Sequence[float],
    compute_seconds: Sequence[float],
    path: Path | str,
    *,
    title: str = "Round time saved",
    note: str = "",
) -> Path:
    """Draw `saved[compute, uplink]`, a share of the round time (0.4: 40 % saved; below 0: it costs time).

    Small grids show their numbers, larger ones the line at 0, where compression no longer pays. The name of
    `path` ends in .svg, .png or .pdf.
    """
    table = np.asarray(saved, dtype=np.float64)
    shape = (len(compute_seconds), len(uplink_bps))
    if table.shape != shape or min(shape) < 2:
        raise ConfigError(f"a plan's map needs a grid of 2 × 2 or more: got values {table.shape} for axes {shape}")
    if not (np.all(np.diff(uplink_bps) > 0) and np.all(np.diff(compute_seconds) > 0)):
        raise ConfigError("a plan's map needs uplinks and compute times in rising order")
    from adagq.report.canvas import drawn, save

    return save(drawn(lambda: _draw(table, uplink_bps, compute_seconds, title), note), Path(path))


def _draw(table: Any, uplink_bps: Sequence[float], compute_seconds: Sequence[float], title: str) -> "Figure":
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(5.6, 4.0), layout="constrained")
    axes = figure.subplots()
    bound = max(float(np.nanmax(np.abs(table))), 0.01)
    # brown costs, blue-green saves: different with every common colour-vision deficiency
    look: dict[str, Any] = {"cmap": "BrBG", "norm": TwoSlopeNorm(0.0, -bound, bound)}
    image = axes.imshow(table, origin="lower", aspect="auto", interpolation="nearest", **look)
    if table.size > 100 and table.min() < 0 < table.max():
        axes.contour(table, levels=[0.0], colors="black", linewidths=1.2)
    rates = [rate / 1e6 for rate in uplink_bps]
    for axis, values in ((axes.xaxis, rates), (axes.yaxis, compute_seconds)):
        places = range(0, len(values), -(-len(values) // 8))
        axis.set_ticks(places, [f"{values[place]:.3g}" for place in places])
    axes.grid(visible=False)
    axes.set(xlabel="uplink (Mbit/s)", ylabel="compute per round (s)", title=title)
    if table.size <= 100:
        for (line, column), value in np.ndenumerate(table):
            colour = "white" if abs(value) > 0.65 * bound else "black"
            axes.text(column, line, f"{100 * value:.0f}", ha="center", va="center", fontsize=8, color=colour)
    figure.colorbar(image, ax=axes, format=PercentFormatter(1.0, decimals=0, symbol=" %"), label="time saved")
    return figure
