"""How figures for papers look and are saved: the only code that configures matplotlib.

Figures are made without pyplot, so nothing global changes and no window system is touched. SVG keeps its
text as text and carries no date: the same rows give the same file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from adagq.core.atomic import replacing
from adagq.core.errors import ConfigError

LOOK: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9aa3af",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e9ecf1",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.color": "#555d6b",
    "ytick.color": "#555d6b",
    "svg.fonttype": "none",
    "svg.hashsalt": "adagq",
}


def drawn(draw: Callable[[], Figure], note: str = "") -> Figure:
    """The figure that `draw` makes, in the house's look, with `note` (of a scaled run) at its foot."""
    with matplotlib.rc_context(LOOK):
        figure = draw()
        if note:
            figure.supxlabel(note, fontsize=7, color="#b84f00", x=0.01, ha="left")
        return figure


def dashes(pattern: str) -> Any:
    """SVG's dash pattern as a matplotlib line style."""
    return (0, tuple(float(part) for part in pattern.split())) if pattern else "-"


def save_drawn(draw: Callable[[], Figure], path: Path, note: str = "") -> Path:
    """Draw one figure and save it."""
    return save(drawn(draw, note), path)


def save(figure: Figure, path: Path) -> Path:
    """Save as what the name says (.svg, .png or .pdf), whole or not at all."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png", "pdf"):
        raise ConfigError(f"{path.name}: a figure's name ends in .svg, .png or .pdf")
    metadata = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None}}[kind]
    with matplotlib.rc_context(LOOK), replacing(path) as file:
        figure.savefig(file, format=kind, dpi=200, metadata=metadata)
    return path
