"""The comparison as a table: the same cells for the terminal (rich) and for the page.

A cell is the mean and, below or beside it, the standard deviation over seeds. A method that misses the target
says so and shows where it got: its best accuracy, and what it spent on the way in the columns of the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from adagq.report.summary import Summary, is_reference, shown
from adagq.report.units import Unit, digits, percent, pick_bytes, pick_seconds, scale_note, seconds_text

ONE: Unit = ("", 1.0)
SPLIT = ("compute", "upload", "download", "waiting")
SERVER_MATTERS = 0.05  # of the time
TARGET_NOTE = "No target was set: this is the best that every run reached. `adagq report --target` takes another."


@dataclass(frozen=True, slots=True)
class Measure:
    """The text of a mean and of its deviation, empty where there is none."""

    mean: str
    std: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One method: its cells by column; `missed` says how, empty if every seed reached the target."""

    method: str
    cells: tuple[Measure, ...]
    missed: str
    never: bool  # no seed reached the target: the cells show what was spent
    reference: bool


@dataclass(frozen=True, slots=True)
class Sheet:
    """The whole table as texts."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


def sheet(summary: Summary) -> Sheet:
    """All texts of the table, in one unit per kind of column."""
    run, methods = summary["run"], summary["methods"]
    records = {name: shown(record) for name, record in methods.items()}
    total = pick_seconds(record["seconds"]["mean"] for record in records.values())
    data = pick_bytes(record[key]["mean"] for record in records.values() for key in ("upload_bytes", "download_bytes"))
    columns = [
        ("rounds", "rounds", ONE),
        (f"up {data[0]}", "upload_bytes", data),
        (f"down {data[0]}", "download_bytes", data),
        (f"time {total[0]}", "seconds", total),
        *((f"{phase} {total[0]}", f"{phase}_seconds", total) for phase in _phases(summary, records)),
    ]
    if any(record["tax"]["mean"] is not None for record in methods.values()):
        columns.append(("tax", "tax", ONE))
    if any(record[key]["mean"] is not None for record in methods.values() for key in ("speedup", "speedup_at_least")):
        columns.append((f"speed-up vs {run['baseline']}", "speedup", ONE))
    lines = tuple(
        Line(
            name,
            tuple(_measure(records[name], record, key, unit) for _, key, unit in columns),
            missed_text(record, run["target"]),
            record["reached"] == 0,
            is_reference(name, summary),
        )
        for name, record in methods.items()
    )
    count = len(run["seeds"])
    spread = f"mean ± standard deviation over {count} seeds" if count > 1 else "one seed"
    rest = "they" if "server_seconds" in [key for _, key, _ in columns] else "with the server's own time they"
    notes = [
        f"Data per client; {spread}. Compute, upload, download and waiting are a client's mean; {rest} add up to the "
        "total.",
        f"Tax: time over that of {run['reference']}, the same fleet with free links and one-epoch rounds."
        if run["reference"] in methods
        else "",
        "" if run.get("target_named", True) else TARGET_NOTE,
        scale_note(run["payload_scale"]),
        _privacy_note(methods),
    ]
    title = f"Until {percent(run['target'])} accuracy"
    return Sheet(title, tuple(name for name, _, _ in columns), lines, tuple(note for note in notes if note))


def _privacy_note(methods: Mapping[str, Any]) -> str:
    """Return what the runs spent of their clients' privacy until their last round; empty if none did."""
    spent = {name: record["epsilon"]["mean"] for name, record in methods.items() if "epsilon" in record}
    if not spent:
        return ""
    delta = max(seed["delta"] for name in spent for seed in methods[name]["per_seed"].values())
    named = ", ".join(f"{name} {digits(epsilon)}" for name, epsilon in spent.items())
    return f"Differential privacy of each client at delta = {delta:g}, epsilon: {named}."


def _phases(summary: Summary, records: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parts of the time that have a column; the server has one where it was measured, or matters."""
    shares = [record["server_seconds"]["mean"] / (record["seconds"]["mean"] or 1.0) for record in records.values()]
    return (*SPLIT, "server") if summary["run"]["clock"] == "measured" or max(shares) > SERVER_MATTERS else SPLIT


def missed_text(record: Mapping[str, Any], target: float) -> str:
    """Where a method that missed the target got; empty if all seeds reached it."""
    if record["missed"] is None:
        return ""
    best, spent = record["missed"]["best_accuracy"]["mean"], record["missed"]["seconds"]["mean"]
    total = len(record["per_seed"])
    count = sum(not seed["reached"] for seed in record["per_seed"].values())
    who = "" if count == total else f" with {count} of {total} seeds"
    return f"missed {percent(target)}{who}: got to {percent(best, 2)} in {seconds_text(spent)}"


def summary_table(summary: Summary) -> Table:
    """The table for the terminal; it fits in 80 columns because deviations stand below their means."""
    page = sheet(summary)
    missed = [f"{line.method} {line.missed}." for line in page.lines if line.missed]
    table = Table(
        title=page.title,
        caption="\n".join([*missed, *page.notes]),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
        show_edge=False,
        title_style="bold",
    )
    table.add_column("method", no_wrap=True)
    for name in page.columns:
        heading = name.replace("download", "down-load").replace("waiting", "wait-ing").split(" vs ")[0]
        table.add_column(heading.replace("-", "-\n").replace(" ", "\n"), justify="right", no_wrap=True)
    fastest = fastest_method(summary)
    for line in page.lines:
        style = "bold" if line.method == fastest else "dim" if line.reference or line.never else ""
        label = Text(line.method, style=style)
        if line.missed:
            best = summary["methods"][line.method]["missed"]["best_accuracy"]["mean"]
            label.append(f"\nmissed {percent(best).replace(' ', '')}", style="yellow")
        table.add_row(label, *(_stacked(cell, style) for cell in line.cells))
    return table


def fastest_method(summary: Summary) -> str | None:
    """The method, not the reference, whose every seed reached the target and that needed the least time."""
    times = {
        name: record["seconds"]["mean"]
        for name, record in summary["methods"].items()
        if record["reached"] == 1 and not is_reference(name, summary)
    }
    return min(times, key=times.__getitem__, default=None)


def _stacked(cell: Measure, style: str) -> Text:
    text = Text(cell.mean, style=style)
    if cell.std:
        text.append(f"\n{cell.std}", style="dim")
    return text


def _measure(numbers: Mapping[str, Any], record: Mapping[str, Any], key: str, unit: Unit) -> Measure:
    spread = numbers.get(key) or {"mean": None, "std": None}
    prefix = ""
    if key == "speedup" and spread["mean"] is None and record["speedup_at_least"]["mean"] is not None:
        spread, prefix = record["speedup_at_least"], "≥ "
    if spread["mean"] is None:
        return Measure("–")
    mean = digits(spread["mean"] / unit[1])
    decimals = len(mean.partition(".")[2])
    if key.endswith("_seconds"):  # a part of the time: hardly finer than the whole, so 0.00 and not 0.000222 of 17.5
        whole = digits(numbers["seconds"]["mean"] / unit[1])
        decimals = min(decimals, len(whole.partition(".")[2]) + 1)
        mean = f"{spread['mean'] / unit[1]:.{decimals}f}"
    std = f"±{spread['std'] / unit[1]:.{decimals}f}" if spread["std"] else ""
    return Measure(f"{prefix}{mean}{'×' if key == 'speedup' else ''}", std)
