"""The numbers that the paper's figures plot, for programs: what stands in fig2.json, fig3.json, …"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adagq.paper.cells import Cell
from adagq.paper.columns import over_rounds
from adagq.report.run import Floats
from adagq.report.series import accuracy_curves
from adagq.report.summary import shown

SPLIT = {
    "computation": ("compute",),
    "communication": ("upload", "download"),
    "waiting and server": ("waiting", "server"),
}
Plotted = dict[str, Any]  # method -> its numbers


def plotted(kind: str, cells: Mapping[str, Cell]) -> dict[str, Any]:
    """Return for every cell its target and, per method, what the figure shows; or why there is nothing."""
    result: dict[str, Any] = {}
    for cell in cells.values():
        if cell.summary is None:
            result[cell.key] = {"absent": cell.absent}
            continue
        run = cell.summary["run"]
        facts = {key: run[key] for key in ("target", "seeds", "payload_scale", "task", "fleet")}
        result[cell.key] = facts | {"methods": PLOTS[kind](cell)}
    return result


def split_seconds(record: Mapping[str, Any]) -> dict[str, float]:
    """Return a mean client's seconds until the target (or, if it was missed, in all), by SPLIT."""
    own = shown(record)
    return {part: sum(float(own[f"{phase}_seconds"]["mean"]) for phase in phases) for part, phases in SPLIT.items()}


def _columns(*names: str) -> Callable[[Cell], Plotted]:
    def collect(cell: Cell) -> Plotted:
        methods: Plotted = {}
        for column in names:
            for method, line in over_rounds(cell.rows, column).items():
                rounds = [int(place) for place in line.rounds]
                methods.setdefault(method, {})[column] = {
                    "round": rounds,
                    "mean": _short(line.mean),
                    "std": _short(line.std),
                }
        return methods

    return collect


def _bits(cell: Cell) -> Plotted:
    return {method: numbers | _times(cell, method) for method, numbers in _columns("accuracy")(cell).items()}


def _curves(cell: Cell) -> Plotted:
    return {
        method: {"seconds": _short(curve.grid), "accuracy": _short(curve.mean), "accuracy_std": _short(curve.std)}
        | {"to_target": _times(cell, method)}
        for method, curve in accuracy_curves(cell.rows).items()
    }


def _split(cell: Cell) -> Plotted:
    assert cell.summary is not None
    return {method: split_seconds(record) | _times(cell, method) for method, record in cell.summary["methods"].items()}


def _times(cell: Cell, method: str) -> dict[str, Any]:
    """Return what a method needed or, where `reached` is 0, spent."""
    record = cell.record(method) or {}
    own = shown(record)
    return {"reached": record["reached"], "rounds": own["rounds"], "total_seconds": own["seconds"]}


def _short(values: Floats) -> list[float]:
    """Six significant digits are more than a figure shows."""
    return [float(f"{value:.6g}") for value in np.asarray(values).tolist()]


PLOTS: Mapping[str, Callable[[Cell], Plotted]] = {
    "norms_and_accuracy": _columns("norm", "accuracy"),
    "bits_for_the_slow": _bits,
    "curves": _curves,
    "split": _split,
}
