"""What the figures draw, bounded in size: curves, heat maps and timelines cut down to what a screen can show.

Both the page and the figures for papers draw from here, so they cannot disagree. A run of any length and any
number of clients gives at most POINTS points per curve, BINS columns and CLIENTS lines per heat map, and
CLIENTS bars per timeline. Of more than CLIENTS clients a line of a heat map is the mean over a band of them with
neighbouring uplinks: in a cohort that is drawn from thousands a single client is hardly ever seen.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np

from adagq.core.errors import ConfigError
from adagq.core.registry import suggestion
from adagq.report.palette import REFERENCE, ordered
from adagq.report.run import Floats, Row, Run, number
from adagq.report.summary import by_seed, target_index

POINTS, BINS, CLIENTS = 160, 120, 40
OVER = ("time", "data", "rounds")  # what accuracy is drawn over
BYTES = ("upload_bytes", "download_bytes")
HEAT = ("levels", "upload_bytes", "waiting_seconds")
SEGMENTS = ("download", "compute", "upload", "waiting")  # in the order in which a round goes


@dataclass(frozen=True)
class Curve:
    """Accuracy over time, data or rounds: `seeds` as measured; `grid`, `mean`, `std` over what all seeds share.

    One seed's grid are its own points: nothing is resampled. Over rounds no value is interpolated.
    """

    seeds: list[tuple[Floats, Floats]]
    grid: Floats
    mean: Floats
    std: Floats


@dataclass(frozen=True)
class Heat:
    """Values per client or band of clients (slowest uplink first) and bin of rounds; NaN where there is none."""

    clients: list[str]  # "client 7", or "250 clients" of a band
    first_rounds: list[int]
    last_round: int
    values: dict[str, Floats]


@dataclass(frozen=True)
class Timeline:
    """One round: for each client (slowest uplink first) its seconds in the order of SEGMENTS."""

    round: int
    clients: list[int]
    seconds: Floats
    server_seconds: float
    round_seconds: float


def accuracy_curves(rows: Sequence[Row], over: str = "time", clients: int = 1) -> dict[str, Curve]:
    """Return a curve per method that has any accuracy at all; data are per client of so many."""
    if over not in OVER:
        raise ConfigError(f"over = {over!r}: {suggestion(over, OVER)} Known: {', '.join(OVER)}")
    runs = by_seed(rows)
    result: dict[str, Curve] = {}
    for method in ordered(runs):
        seeds = [_points(run, over, clients) for run in runs[method].values()]
        seeds = [(x, accuracies) for x, accuracies in seeds if x.size]
        if not seeds:
            continue
        grid = _shared_grid([x for x, _ in seeds], over)
        values = np.stack([np.interp(grid, x, accuracies) for x, accuracies in seeds])
        std = values.std(axis=0, ddof=1) if len(seeds) > 1 else np.zeros(grid.size)
        result[method] = Curve([_thin(*seed) for seed in seeds], grid, values.mean(axis=0), std)
    return result


def to_target(record: Mapping[str, Any], over: str) -> tuple[float, float] | None:
    """Return mean and deviation of what a method's seeds needed until the target; None if none got there."""
    values = [_needed(seed, over) for seed in record["per_seed"].values() if seed["reached"]]
    if not values:
        return None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def heat_maps(run: Run) -> dict[str, Heat]:
    """One heat map per method of the ledger, for its first seed."""
    bands = _bands(_slowest_first(run))
    return {method: _heat(run.ledger[method], bands) for method in ordered(run.ledger)}


def round_timelines(run: Run, target: float) -> dict[str, list[Timeline]]:
    """The second round (the first that knows its clients), one half-way and the last one until the target."""
    clients = _slowest_first(run)
    runs = by_seed(run.rows)
    result: dict[str, list[Timeline]] = {}
    for method in ordered(run.ledger):
        rows = runs.get(method, {}).get(run.ledger_seed or 0, [])
        if not rows:
            continue
        place = target_index(rows, target)
        last = len(rows) - 1 if place is None else place
        first = min(1, last)
        picks = (first, (first + last) // 2, last)
        result[method] = [_timeline(run.ledger[method], rows[pick], clients) for pick in picks]
    return result


def _needed(seed: Mapping[str, Any], over: str) -> float:
    if over == "data":
        return float(seed["upload_bytes"] + seed["download_bytes"])
    return float(seed["seconds" if over == "time" else "rounds"])


def _points(run: Sequence[Row], over: str, clients: int) -> tuple[Floats, Floats]:
    """Return where the model was evaluated, and its accuracy."""
    if over == "data":
        x = np.cumsum([sum(number(row.get(key)) or 0.0 for key in BYTES) for row in run]) / clients
    else:
        x = np.array([float(row["seconds" if over == "time" else "round"]) for row in run])
    accuracies = [number(row.get("accuracy")) for row in run]
    known = [place for place, value in enumerate(accuracies) if value is not None]
    return x[known], np.array([accuracies[place] for place in known], dtype=np.float64)


def _shared_grid(axes: Sequence[Floats], over: str) -> Floats:
    """Return the points at which a mean over seeds is drawn."""
    if len(axes) == 1:
        return _thin(axes[0], axes[0])[0]
    if over == "rounds" and (common := reduce(np.intersect1d, axes)).size:
        return _thin(common, common)[0]
    start, end = max(x[0] for x in axes), min(x[-1] for x in axes)
    longest = max(x.size for x in axes)
    return np.linspace(start, end, min(POINTS, longest)) if end > start else np.array([start])


def _thin(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    keep = np.unique(np.linspace(0, times.size - 1, min(POINTS, times.size)).round().astype(int))
    return times[keep], values[keep]


def _slowest_first(run: Run) -> list[int]:
    """Return the clients by their uplink: the same order for all methods."""
    slowness: dict[int, list[float]] = {}
    for method, table in run.ledger.items():
        sent = table["upload_bytes"] > 0
        cost = np.divide(table["upload_seconds"], table["upload_bytes"], where=sent, out=np.zeros(sent.size))
        if method == REFERENCE or not np.nansum(cost):
            cost = np.zeros(sent.size)  # free links tell nothing about the fleet
        ids, inverse = np.unique(table["client"].astype(int), return_inverse=True)
        means = np.bincount(inverse, np.nan_to_num(cost)) / np.bincount(inverse)
        for client, mean in zip(ids.tolist(), means.tolist(), strict=True):
            slowness.setdefault(client, []).append(mean / (means.max() or 1.0))
    return sorted(slowness, key=lambda client: (-statistics.fmean(slowness[client]), client))


def _bands(order: Sequence[int]) -> list[Sequence[int]]:
    """Cut the clients into at most CLIENTS bands of neighbours.

    >>> [len(band) for band in _bands(range(100))][:4], _bands([5, 3])
    ([2, 3, 2, 3], [[5], [3]])
    """
    edges = np.linspace(0, len(order), min(CLIENTS, len(order)) + 1).astype(int)
    return [order[first:last] for first, last in pairwise(edges.tolist())]


def _heat(table: Mapping[str, Floats], bands: Sequence[Sequence[int]]) -> Heat:
    rounds = table["round"].astype(int)
    first, last = int(rounds.min()), int(rounds.max())
    edges = np.unique(np.linspace(first, last + 1, min(BINS, last - first + 1) + 1).round().astype(int))
    columns = np.searchsorted(edges, rounds, side="right") - 1
    rank = {client: place for place, band in enumerate(bands) for client in band}
    lines = np.array([rank.get(client, -1) for client in table["client"].astype(int).tolist()])
    shape = (len(bands), edges.size - 1)
    values: dict[str, Floats] = {}
    for name in HEAT:
        use = (lines >= 0) & np.isfinite(table[name])
        if name == "levels":
            use &= table[name] > 0  # 0 means: a codec without levels
        cells = lines[use] * shape[1] + columns[use]
        count = np.bincount(cells, minlength=shape[0] * shape[1])
        total = np.bincount(cells, table[name][use], minlength=shape[0] * shape[1])
        mean = np.divide(total, count, where=count > 0, out=np.full(total.size, np.nan))
        values[name] = mean.reshape(shape)
    names = [f"client {band[0]}" if len(band) == 1 else f"{len(band)} clients" for band in bands]
    return Heat(names, edges[:-1].tolist(), last, values)


def _thinned(clients: Sequence[int]) -> list[int]:
    """Return at most CLIENTS of them, evenly."""
    keep = np.unique(np.linspace(0, len(clients) - 1, min(CLIENTS, len(clients))).round().astype(int))
    return [clients[index] for index in keep] if clients else []


def _timeline(table: Mapping[str, Floats], row: Row, clients: Sequence[int]) -> Timeline:
    here = table["round"] == int(row["round"])
    seconds = np.stack([np.nan_to_num(table[f"{name}_seconds"][here]) for name in SEGMENTS], axis=1)
    place = {client: index for index, client in enumerate(table["client"][here].astype(int).tolist())}
    present = _thinned([client for client in clients if client in place])
    chosen = seconds[[place[client] for client in present]] if present else np.zeros((0, len(SEGMENTS)))
    server = number(row.get("server_seconds")) or 0.0
    total = number(row.get("round_seconds"))
    if total is None:
        total = float(chosen.sum(axis=1).max(initial=0.0)) + server
    return Timeline(int(row["round"]), present, chosen, server, total)
