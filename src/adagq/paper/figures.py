"""The paper's figures, redrawn from our runs; the only part of `paper` that imports matplotlib.

    norms_and_accuracy    figure 2: the norm of the aggregate and the accuracy, over rounds
    bits_for_the_slow     figure 3: time to the target per strategy, accuracy over rounds
    curves                figure 6: accuracy over virtual time, a panel per task
    split                 figure 7: where a client's mean time goes, a panel per task

A cell that has not run is an empty panel that says so.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogFormatter, PercentFormatter, StrMethodFormatter

from adagq.paper.cells import Cell
from adagq.paper.columns import OverRounds, over_rounds
from adagq.paper.plotted import SPLIT, split_seconds
from adagq.report.canvas import dashes
from adagq.report.figures import plot_accuracy
from adagq.report.palette import PHASE_INKS, REFERENCE, Ink, inks
from adagq.report.series import accuracy_curves
from adagq.report.summary import shown
from adagq.report.units import percent, pick_seconds, seconds_text

Cells = Mapping[str, Cell]
Colours = Mapping[str, Ink]
GREY = "#555d6b"
SPLIT_INKS = {"computation": "compute", "communication": "upload", "waiting and server": "waiting"}
WORDS = {"resnet18": "ResNet-18", "googlenet": "GoogLeNet", "cifar10": "CIFAR-10", "fashion-mnist": "Fashion-MNIST"}


def norms_and_accuracy(cells: Cells) -> Figure:
    """Two panels per cell: the norm on a logarithmic axis, the accuracy."""
    colours = _colours(cells)
    figure, rows = _grid(len(cells), 2)
    for (left, right), cell in zip(rows, cells.values(), strict=True):
        if _is_absent(left, cell) or _is_absent(right, cell):
            continue
        _over_rounds(left, over_rounds(cell.rows, "norm"), colours)
        left.set(title=_title("(a) norm of the aggregate", cell, cells), xlabel="round", ylabel="norm", yscale="log")
        left.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        left.yaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
        left.tick_params(axis="y", which="minor", labelsize=8, labelcolor=GREY)
        _accuracy(right, cell, colours)
        right.set_title(_title("(b) accuracy", cell, cells))
    _legend(figure, colours)
    return figure


def bits_for_the_slow(cells: Cells) -> Figure:
    """Two panels per cell: bars of the time to the target, the accuracy over rounds."""
    colours = _colours(cells)
    figure, rows = _grid(len(cells), 2)
    for (left, right), cell in zip(rows, cells.values(), strict=True):
        if _is_absent(left, cell) or _is_absent(right, cell):
            continue
        _time_bars(left, cell, colours)
        left.set_title(_title(f"(a) time to {percent(_run(cell)['target'])}", cell, cells))
        _accuracy(right, cell, colours)
        right.axhline(_run(cell)["target"], color=GREY, lw=0.8, ls=(0, (3, 3)))
        right.set_title(_title("(b) accuracy", cell, cells))
    _legend(figure, colours)
    return figure


def curves(cells: Cells) -> Figure:
    """A panel per cell, two in a row."""
    colours = _colours(cells)
    figure, panels = _panels(cells, height=2.6)
    for axes, cell in zip(panels, cells.values(), strict=True):
        axes.set_title(task_words(cell.key))
        if not _is_absent(axes, cell):
            assert cell.summary is not None
            size = plot_accuracy(axes, accuracy_curves(cell.rows), cell.summary, colours)
            _under_way(axes, cell, size, colours)
    _legend(figure, colours)
    return figure


def _under_way(axes: Any, cell: Cell, size: float, colours: Colours) -> None:
    """Draw methods that no seed has finished as thin lines that say so at their end."""
    for name, curve in accuracy_curves(cell.under_way).items():
        for seconds, accuracies in curve.seeds:
            axes.plot(seconds / size, accuracies, color=colours[name].light, lw=0.8, marker=".", ms=3)
            axes.text(seconds[-1] / size, accuracies[-1], f" {name}, under way", fontsize=7, va="top", clip_on=True)


def split(cells: Cells) -> Figure:
    """A panel of stacked bars per cell, two in a row."""
    methods = max(len(cell.summary["methods"]) if cell.summary else 0 for cell in cells.values())
    figure, panels = _panels(cells, height=0.9 + 0.22 * methods)
    for axes, cell in zip(panels, cells.values(), strict=True):
        axes.set_title(task_words(cell.key))
        if not _is_absent(axes, cell):
            _split_bars(axes, cell)
    patches = [Patch(color=PHASE_INKS[SPLIT_INKS[part]].light, label=part) for part in SPLIT]
    figure.legend(handles=patches, loc="outside upper center", ncols=len(patches))
    return figure


DRAWS: Mapping[str, Callable[[Cells], Figure]] = {
    "norms_and_accuracy": norms_and_accuracy,
    "bits_for_the_slow": bits_for_the_slow,
    "curves": curves,
    "split": split,
}


def task_words(key: str) -> str:
    """resnet18/cifar10 -> ResNet-18 on CIFAR-10; other keys stay as they are."""
    return " on ".join(WORDS.get(part, part) for part in key.split("/"))


def _accuracy(axes: Any, cell: Cell, colours: Colours) -> None:
    _over_rounds(axes, over_rounds(cell.rows, "accuracy"), colours)
    axes.set(xlabel="round", ylabel="accuracy")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def _over_rounds(axes: Any, lines: Mapping[str, OverRounds], colours: Colours) -> None:
    for name, line in lines.items():
        ink = colours[name]
        look: dict[str, Any] = {"ls": dashes(ink.dash), "marker": "." if line.rounds.size == 1 else ""}
        axes.plot(line.rounds, line.mean, color=ink.light, lw=ink.width * 0.75, **look)
        if line.std.any():
            low, high = line.mean - line.std, line.mean + line.std
            axes.fill_between(line.rounds, low, high, color=ink.light, alpha=0.15, lw=0)


def _time_bars(axes: Any, cell: Cell, colours: Colours) -> None:
    names = [name for name in cell.methods if name != REFERENCE and cell.record(name) is not None]

    def draw(place: int, name: str, record: Mapping[str, Any], size: float) -> float:
        seconds, faded = shown(record)["seconds"], 0.45 if not record["reached"] else 1.0
        mean, std = seconds["mean"] / size, seconds["std"] / size
        look: dict[str, Any] = {"color": colours[name].light, "alpha": faded, "error_kw": {"elinewidth": 1.2}}
        axes.barh(place, mean, xerr=std or None, height=0.66, **look)
        return float(mean + std)

    _bars(axes, cell, names, draw)


def _split_bars(axes: Any, cell: Cell) -> None:
    names = [name for name in cell.methods if cell.record(name) is not None]

    def draw(place: int, name: str, record: Mapping[str, Any], size: float) -> float:
        start, faded = 0.0, 0.45 if not record["reached"] else 1.0
        for part, seconds in split_seconds(record).items():
            ink = PHASE_INKS[SPLIT_INKS[part]]
            axes.barh(place, seconds / size, left=start, height=0.7, color=ink.light, alpha=faded)
            start += seconds / size
        return start

    _bars(axes, cell, names, draw)


def _bars(
    axes: Any, cell: Cell, names: Sequence[str], draw: Callable[[int, str, Mapping[str, Any], float], float]
) -> None:
    """Draw a bar per method; one that missed the target may run out of the panel, so that the others stay readable."""
    records = {name: record for name in names if (record := cell.record(name)) is not None}
    reached = [record["seconds"]["mean"] for record in records.values() if record["reached"]]
    longest = max(reached or [shown(record)["seconds"]["mean"] for record in records.values()])
    unit, size = pick_seconds([longest])
    limit = 1.35 * longest / size
    for place, (name, record) in enumerate(records.items()):
        end = draw(place, name, record, size)
        total = seconds_text(shown(record)["seconds"]["mean"])
        text = f" {total}" if record["reached"] else f" missed, {total}"
        inside = end > 0.75 * limit
        where: dict[str, Any] = {"x": limit if inside else end, "ha": "right" if inside else "left"}
        axes.text(y=place, s=text, va="center", fontsize=7, **where)
    axes.set_yticks(range(len(records)), list(records))
    axes.tick_params(axis="y", length=0, labelcolor="black", labelsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, limit)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"virtual time ({unit})")


def _is_absent(axes: Any, cell: Cell) -> bool:
    """Write into the panel that there is nothing to draw, if so."""
    if cell.summary is None:
        axes.text(0.5, 0.5, cell.absent, transform=axes.transAxes, ha="center", va="center", color=GREY, wrap=True)
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
    return cell.summary is None


def _run(cell: Cell) -> Mapping[str, Any]:
    assert cell.summary is not None
    run: Mapping[str, Any] = cell.summary["run"]
    return run


def _title(text: str, cell: Cell, cells: Cells) -> str:
    return text if len(cells) == 1 else f"{text}, {task_words(cell.key)}"


def _colours(cells: Cells) -> dict[str, Ink]:
    finished = [name for cell in cells.values() if cell.summary for name in cell.summary["methods"]]
    return inks(dict.fromkeys([*finished, *(row["method"] for cell in cells.values() for row in cell.under_way)]))


def _legend(figure: Figure, colours: Colours) -> None:
    if not colours:
        return
    handles = [
        Line2D([], [], color=ink.light, ls=dashes(ink.dash), lw=ink.width * 0.75, label=name)
        for name, ink in colours.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, handlelength=2.6)


def _grid(lines: int, columns: int) -> tuple[Figure, list[list[Any]]]:
    figure = Figure(figsize=(6.4, 0.7 + 2.5 * lines), layout="constrained")
    return figure, figure.subplots(lines, columns, squeeze=False).tolist()


def _panels(cells: Cells, height: float) -> tuple[Figure, list[Any]]:
    lines = -(-len(cells) // 2)
    figure = Figure(figsize=(6.4, 0.5 + height * lines), layout="constrained")
    panels = figure.subplots(lines, min(2, len(cells)), squeeze=False).ravel().tolist()
    for spare in panels[len(cells) :]:
        spare.set_visible(False)
    return figure, panels[: len(cells)]
