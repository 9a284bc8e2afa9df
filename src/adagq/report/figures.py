"""The figures of a run for papers: figures/*.svg and *.png, drawn from the same series as the page."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from adagq.report.canvas import dashes, drawn, save
from adagq.report.palette import PHASE_INKS, PHASES, Ink, inks
from adagq.report.run import Run
from adagq.report.series import SEGMENTS, Curve, Heat, Timeline, accuracy_curves, heat_maps, round_timelines, to_target
from adagq.report.summary import Summary, is_reference, shown
from adagq.report.units import bytes_text, percent, pick_bytes, pick_seconds, scale_note, seconds_text, time_word

COLUMNS = 3  # of panels
MARKED = 60  # points of a curve that are few enough to be marked


def write_figures(run: Run, summary: Summary) -> list[Path]:
    """Draw all figures that the run has data for; the paths of their files."""
    target = summary["run"]["target"]
    curves = accuracy_curves(run.rows)
    draws: dict[str, Callable[[], Figure]] = {
        "time_split": lambda: time_split(summary),
        "bytes": lambda: data_bars(summary),
    }
    if curves:
        draws["accuracy"] = lambda: accuracy(curves, summary)
    if run.ledger:
        heats, lines = heat_maps(run), round_timelines(run, target)
        chosen = _worth_drawing(heats)
        if chosen:
            draws["levels"] = lambda: levels(chosen)
        draws["timeline"] = lambda: timeline(lines)
    note = scale_note(summary["run"]["payload_scale"])
    paths: list[Path] = []
    for name, draw in draws.items():
        figure = drawn(draw, note)
        paths += [save(figure, run.directory / "figures" / f"{name}.{kind}") for kind in ("svg", "png")]
    return paths


def accuracy(curves: Mapping[str, Curve], summary: Summary, over: str = "time") -> Figure:
    """Accuracy over time, data or rounds: mean and band over seeds, rings where the target was reached."""
    figure = Figure(figsize=(6.4, 3.9), layout="constrained")
    axes = figure.subplots()
    plot_accuracy(axes, curves, summary, inks(summary["methods"]), over)
    axes.legend(loc="lower right", ncols=1 if len(curves) < 6 else 2)
    return figure


def plot_accuracy(
    axes: Any,
    curves: Mapping[str, Curve],
    summary: Summary,
    colours: Mapping[str, Ink],
    over: str = "time",
) -> float:
    """Plot what `accuracy` draws, without its legend; return how much one unit of its axis holds."""
    target = summary["run"]["target"]
    last = max(float(x[-1]) for curve in curves.values() for x, _ in curve.seeds)
    needed = {name: to_target(record, over) for name, record in summary["methods"].items()}
    ends = [sum(spread) for name, spread in needed.items() if spread is not None and name in curves]
    end = min(last, 1.15 * max(ends, default=last))
    label, size = _axis(over, end, summary["run"]["clock"])
    for name in (name for name in summary["methods"] if name in curves):
        curve, ink = curves[name], colours[name]
        x, low, high = curve.grid / size, curve.mean - curve.std, curve.mean + curve.std
        for own_x, own_y in curve.seeds if len(curve.seeds) > 1 else ():
            axes.plot(own_x / size, own_y, color=ink.light, lw=0.5, alpha=0.4)
        axes.fill_between(x, low, high, color=ink.light, alpha=0.15, lw=0)
        measured = len(curve.seeds) == 1 and x.size <= MARKED
        look: dict[str, Any] = {"ls": dashes(ink.dash), "marker": "." if measured else "", "ms": 3.5}
        axes.plot(x, curve.mean, color=ink.light, lw=ink.width * 0.75, label=name, **look)
    axes.axhline(target, color="#555d6b", lw=0.8, ls=(0, (3, 3)))
    for name, spread in needed.items():
        if spread is not None and name in curves:
            look = {"color": colours[name].light, "mfc": "white", "ms": 4.5, "elinewidth": 2, "zorder": 5}
            axes.errorbar(spread[0] / size, target, xerr=spread[1] / size or None, marker="o", **look)
    axes.set(xlabel=label, ylabel="accuracy", xlim=(0, 1.02 * end / size))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.text(0, target, f" {percent(target)}", va="bottom", fontsize=8, color="#555d6b")
    return size


def _axis(over: str, end: float, clock: str) -> tuple[str, float]:
    """Return the label of the axis and what its unit holds."""
    if over == "rounds":
        return "round", 1.0
    name, size = pick_seconds([end / 2]) if over == "time" else pick_bytes([end])
    return f"{time_word(clock) if over == 'time' else 'data per client, both ways'} ({name})", size


def time_split(summary: Summary) -> Figure:
    """Stacked bars: where the mean client's time until the target goes."""
    names = list(summary["methods"])
    records = {name: shown(summary["methods"][name]) for name in names}
    unit, size = pick_seconds([max(record["seconds"]["mean"] for record in records.values())])
    figure = Figure(figsize=(6.4, 0.9 + 0.34 * len(names)), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(names):
        start, faded = 0.0, 0.45 if not summary["methods"][name]["reached"] else 1.0
        for phase in PHASES:
            seconds = records[name][f"{phase}_seconds"]["mean"] / size
            axes.barh(place, seconds, left=start, color=PHASE_INKS[phase].light, height=0.66, alpha=faded)
            start += seconds
        missed = "" if summary["methods"][name]["reached"] else "missed, "
        text = f" {missed}{seconds_text(records[name]['seconds']['mean'])}"
        axes.text(start, place, text, va="center", fontsize=8)
    _bar_axes(axes, names, f"{time_word(summary['run']['clock'])} until {percent(summary['run']['target'])} ({unit})")
    patches = [Patch(color=PHASE_INKS[phase].light, label=phase) for phase in PHASES]
    figure.legend(handles=patches, loc="outside upper center", ncols=len(PHASES))
    return figure


def data_bars(summary: Summary) -> Figure:
    """Data per client, up and down, until the target; not of the reference, whose links are free."""
    names = [name for name in summary["methods"] if not is_reference(name, summary)] or list(summary["methods"])
    records = [shown(summary["methods"][name]) for name in names]
    ways = ("upload", "download")
    unit, size = pick_bytes([max(record[f"{way}_bytes"]["mean"] for record in records for way in ways)])
    figure = Figure(figsize=(6.4, 0.9 + 0.42 * len(names)), layout="constrained")
    axes = figure.subplots()
    for shift, way in ((-0.2, "upload"), (0.2, "download")):
        for place, record in enumerate(records):
            spread = record[f"{way}_bytes"]
            axes.barh(place + shift, spread["mean"] / size, height=0.38, color=PHASE_INKS[way].light)
            label = f" {bytes_text(spread['mean'])}"
            axes.text(spread["mean"] / size, place + shift, label, va="center", fontsize=7)
    _bar_axes(axes, names, f"data per client until {percent(summary['run']['target'])} ({unit})")
    patches = [Patch(color=PHASE_INKS[way].light, label=way) for way in ways]
    figure.legend(handles=patches, loc="outside upper center", ncols=2)
    return figure


def levels(heats: Mapping[str, Heat]) -> Figure:
    """Levels per client (slowest uplink on top) over rounds; one scale for all methods."""
    known = np.concatenate([heat.values["levels"].ravel() for heat in heats.values()])
    low, high = float(np.nanmin(known)), float(np.nanmax(known))
    look: dict[str, Any] = {"cmap": "cividis", "norm": LogNorm(low, max(high, low * 2)), "aspect": "auto"}
    figure, panels = _panels(len(heats), height=1.7)
    image: Any = None
    for axes, (name, heat) in zip(panels, heats.items(), strict=True):
        extent = (heat.first_rounds[0] - 0.5, heat.last_round + 0.5, len(heat.clients), 0)
        image = axes.imshow(heat.values["levels"], extent=extent, interpolation="nearest", **look)
        axes.set(title=name, xlabel="round", yticks=[])
        axes.grid(visible=False)
    figure.supylabel("clients, slowest uplink on top", fontsize=8)
    figure.colorbar(image, ax=panels, label="levels", shrink=0.9, format="%g")
    return figure


def timeline(lines: Mapping[str, Sequence[Timeline]]) -> Figure:
    """A round half-way to the target per method: who waited for whom."""
    middle = {name: rounds[len(rounds) // 2] for name, rounds in lines.items()}
    longest = max(line.round_seconds for line in middle.values())
    unit, size = pick_seconds([longest / 2.5])
    figure, panels = _panels(len(middle), height=1.6)
    for axes, (name, line) in zip(panels, middle.items(), strict=True):
        places = np.arange(len(line.clients))
        start = np.zeros(len(line.clients))
        server = np.full(start.size, line.server_seconds)
        parts = [*zip(SEGMENTS, line.seconds.T, strict=True), ("server", server)]
        for segment, seconds in parts:
            axes.barh(places, seconds / size, left=start / size, height=0.9, color=PHASE_INKS[segment].light)
            start = start + seconds
        axes.set(title=f"{name}, round {line.round}", xlim=(0, longest / size), yticks=[])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
    figure.supylabel("clients, slowest uplink on top", fontsize=8)
    patches = [Patch(color=PHASE_INKS[name].light, label=name) for name in (*SEGMENTS, "server")]
    for axes in panels[-min(COLUMNS, len(panels)) :]:
        axes.set_xlabel(f"{unit} into the round")
    figure.legend(handles=patches, loc="outside upper center", ncols=len(patches))
    return figure


def _worth_drawing(heats: Mapping[str, Heat]) -> dict[str, Heat]:
    """Methods that use levels; if some adapt them, only those (a plain colour is no figure)."""
    used = {name: heat for name, heat in heats.items() if np.isfinite(heat.values["levels"]).any()}
    adapting = {name: heat for name, heat in used.items() if np.nanstd(heat.values["levels"]) > 0}
    return adapting or used


def _bar_axes(axes: Any, names: Sequence[str], label: str) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0, labelcolor="black")
    axes.invert_yaxis()
    axes.margins(x=0.17)
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(label)


def _panels(count: int, height: float) -> tuple[Figure, list[Any]]:
    columns = min(COLUMNS, count)
    lines = -(-count // columns)
    figure = Figure(figsize=(6.4, 0.6 + height * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel().tolist()
    for spare in panels[count:]:
        spare.set_visible(False)
    return figure, panels[:count]
