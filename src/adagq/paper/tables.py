"""A table of the paper beside ours: an entry per cell and method, as Markdown, for programs, for the terminal.

    rounds, Gbit per client, seconds    ours (mean ± deviation over seeds); the paper's; ours / paper's
    speed-up, time saved                against FedAvg and against the fastest published baseline: ours; the paper's
    seconds a round                     ours; the paper's; only on the page
    tax                                 time over that of free links: ours only

The paper's column "data uploaded" is in gigabits and 4/3 of the raw payload; it is set beside ours as payload.
A method that missed the target says so, with what it spent as a lower bound; one that has not run says that.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from adagq.paper.cells import BASELINES, NOT_RUN, Cell, Number
from adagq.report.palette import REFERENCE
from adagq.report.summary import shown
from adagq.report.table import missed_text
from adagq.report.units import digits, percent, scale_note

PRINTED_PER_PAYLOAD = 4 / 3
COLUMNS = (
    "rounds",
    "Gbit per client",
    "seconds",
    "seconds a round",
    "speed-up vs fedavg",
    "saved vs fedavg",
    "saved vs best baseline",
    "tax",
)
LEGEND = (
    "First line: ours, mean ± standard deviation over the seeds. Second line: the paper's, and ours / paper's. "
    "Gbit are of payloads (the paper prints 4/3 of that). Tax: time over that of `ideal`, the same fleet with free "
    "links and one-epoch rounds. Best baseline: the fastest of fedavg, qsgd, topk and fedpaq."
)
TERMINAL_LEGEND = (
    "Ours, ± standard deviation over the seeds; dimmed: the paper's. The .md file has their ratio. Tax: time over that "
    "of `ideal`, the same fleet with free links and one-epoch rounds."
)
Entry = dict[str, Any]
Paper = Mapping[str, Mapping[str, Any]]  # method -> what the paper prints in a cell


def table_entries(cells: Mapping[str, Cell], paper: Mapping[str, Paper]) -> list[Entry]:
    """Return the entries of all cells: the paper's methods in its order, then those of the settings in theirs."""
    entries = []
    for cell in cells.values():
        printed = paper.get(cell.key, {})
        methods = sorted(dict.fromkeys((*printed, *cell.methods)), key=lambda method: method == REFERENCE)
        entries += [_entry(cell, method, printed) for method in methods] or [_blank(cell, "")]
    return entries


def _blank(cell: Cell, method: str) -> Entry:
    return {"cell": cell.key, "method": method, "status": NOT_RUN, "note": cell.absent or NOT_RUN}


def _entry(cell: Cell, method: str, paper: Paper) -> Entry:
    printed = paper.get(method, {})
    record = cell.record(method)
    theirs: dict[str, Number] = {
        "rounds": printed.get("rounds"),
        "gigabits": _divided(printed.get("gigabits"), PRINTED_PER_PAYLOAD),
        "seconds": printed.get("seconds"),
    }
    if record is None or cell.summary is None:
        return (
            _blank(cell, method)
            | {key: {"paper": value} for key, value in theirs.items()}
            | {"round_seconds": {"paper": _round_seconds(printed)}}
            | _gains(cell, None, paper, method)
        )
    reached = record["reached"] > 0
    own = shown(record)
    entry: Entry = {
        "cell": cell.key,
        "method": method,
        "status": "reached" if record["reached"] == 1 else "reached with some seeds" if reached else "missed",
        "note": _note(cell, record),
        "seeds": len(record["per_seed"]),
        "reached": record["reached"],
        "best_accuracy": record["best_accuracy"],
        "rounds": dict(own["rounds"]),
        "gigabits": {key: None if value is None else 8e-9 * value for key, value in own["upload_bytes"].items()},
        "seconds": dict(own["seconds"]),
        "tax": record["tax"],
    }
    for key, value in theirs.items():
        entry[key] |= {"paper": value, "ratio": _divided(entry[key]["mean"], value) if reached else None}
    entry["seconds"]["paper_std"] = printed.get("seconds_std")
    entry["round_seconds"] = {"mean": own["round_seconds"]["mean"], "paper": _round_seconds(printed)}
    return entry | _gains(cell, record, paper, method)


def _gains(cell: Cell, record: Mapping[str, Any] | None, paper: Paper, method: str) -> Entry:
    """Speed-up and time saved, ours and the paper's; a baseline is not set against the best of its own kind."""
    times = {name: float(paper[name]["seconds"]) for name in BASELINES if "seconds" in paper.get(name, {})}
    seconds = paper.get(method, {}).get("seconds")
    best = min(times, key=times.__getitem__, default=None) if method not in BASELINES else None
    rival = cell.fastest_baseline() if method not in BASELINES else None
    fedavg = cell.ratio(method, "fedavg")
    return {
        "speedup": {
            "ours": _divided(1.0, fedavg),
            "at_least": record["speedup_at_least"]["mean"] if record else None,
            "paper": _divided(times.get("fedavg"), seconds),
        },
        "saved_vs_fedavg": {"ours": _rest(fedavg), "paper": _rest(_divided(seconds, times.get("fedavg")))},
        "saved_vs_best": {
            "ours": _rest(cell.ratio(method, rival)) if rival else None,
            "rival": rival,
            "paper": _rest(_divided(seconds, times[best])) if best else None,
            "paper_rival": best if seconds else None,
        },
    }


def _note(cell: Cell, record: Mapping[str, Any]) -> str:
    assert cell.summary is not None
    notes = [missed_text(record, cell.summary["run"]["target"])]
    if len(record["per_seed"]) < cell.seeds:
        notes.append(f"{len(record['per_seed'])} of {cell.seeds} seeds are finished")
    return "; ".join(note for note in notes if note)


def entry_texts(entry: Entry) -> list[tuple[str, str]]:
    """Return (ours, the paper's) for each of COLUMNS."""
    bound = "> " if entry["status"] == "missed" else ""
    texts = [_measure(entry.get(key, {}), bound) for key in ("rounds", "gigabits", "seconds")]
    texts.append(_measure(entry.get("round_seconds", {}), ""))
    speedup, tax = entry.get("speedup", {}), entry.get("tax") or {}
    ours = _times(speedup.get("ours"))
    if not ours and speedup.get("at_least") is not None:
        ours = f"≥ {_times(speedup['at_least'])}"
    texts.append((ours, _times(speedup.get("paper"))))
    for key in ("saved_vs_fedavg", "saved_vs_best"):
        saved = entry.get(key, {})
        texts.append((_share(saved, "ours", "rival"), _share(saved, "paper", "paper_rival")))
    return [*texts, (_spread(tax), "")]


def table_lines(entries: Sequence[Entry], varies: str) -> list[str]:
    """Return the entries as a GitHub table."""
    columns, texts = _filled(entries)
    lines = [f"| {' | '.join((varies or 'cell', 'method', *columns))} |", "| --- | --- |" + " ---: |" * len(columns)]
    for entry, pairs in zip(entries, texts, strict=True):
        method = entry["method"] or "all"
        label = f"{method}<br>*{entry['note']}*" if entry["note"] else method
        cells = [f"{ours or '–'}<br>{theirs}" if theirs else ours for ours, theirs in pairs]
        lines.append(f"| {' | '.join((entry['cell'], label, *cells))} |")
    return lines


def rich_table(entries: Sequence[Entry], title: str, varies: str) -> Table:
    """Return the table for the terminal, in 80 columns: deviations below the means, the paper's numbers dimmed."""
    columns, texts = _filled(entries, leave_out=("seconds a round",))
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "show_edge": False}
    table = Table(title=title, caption=TERMINAL_LEGEND, caption_justify="left", **look)
    table.add_column("method", no_wrap=True)
    for name in columns:
        table.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    previous = None
    for entry, pairs in zip(entries, texts, strict=True):
        if previous != entry["cell"]:
            table.add_section()
            table.add_row(Text(f"{varies} {entry['cell']}".strip(), style="underline"))
        label = Text(entry["method"] or "all", style="bold" if entry["method"].startswith("adagq") else "")
        table.add_row(label, *(_stacked(*pair) for pair in pairs))
        previous = entry["cell"]
    notes = [f"{entry['cell']}, {entry['method'] or 'all'}: {entry['note']}" for entry in entries if entry["note"]]
    table.caption = "\n".join([*notes, TERMINAL_LEGEND])
    return table


def _stacked(ours: str, theirs: str) -> Text:
    """Return a cell of few columns: ours, its deviation or rival below, and the paper's without the ratio."""
    text = Text((ours or ("–" if theirs else "")).replace(" ±", "\n±").replace(" (", "\n("))
    return text.append(f"\n{theirs.partition(' · ')[0].replace(' (', chr(10) + '(')}", style="dim") if theirs else text


def _filled(entries: Sequence[Entry], leave_out: Sequence[str] = ()) -> tuple[list[str], list[list[tuple[str, str]]]]:
    """Return the columns that hold anything, and the texts of each entry in them."""
    texts = [entry_texts(entry) for entry in entries]
    kept = [place for place, name in enumerate(COLUMNS) if name not in leave_out]
    used = [place for place in kept if any(any(pairs[place]) for pairs in texts)]
    return [COLUMNS[place] for place in used], [[pairs[place] for place in used] for pairs in texts]


def cell_notes(cells: Mapping[str, Cell], targets: Mapping[str, float]) -> list[str]:
    """Return for every cell what was run, and where it is not what the paper ran."""
    lines = []
    for cell in cells.values():
        if cell.summary is None:
            lines.append(f"- {cell.key}: {cell.absent}")
            continue
        run = cell.summary["run"]
        goal = targets.get(cell.key)
        target = f"until {percent(run['target'])}"
        if goal is not None and goal != run["target"]:
            target += f" (the paper: {percent(goal)})"
        count = len(run["seeds"])
        words = [run["task"], run["fleet"], target, f"{count} seed{'s' if count != 1 else ''}"]
        note = scale_note(run["payload_scale"])
        lines.append(f"- {cell.key}: {'; '.join(word for word in words if word)}{'. ' + note if note else ''}")
    return lines


def _measure(measure: Mapping[str, Any], bound: str) -> tuple[str, str]:
    paper = "" if measure.get("paper") is None else digits(measure["paper"])
    if paper and measure.get("ratio") is not None:
        paper += f" · {digits(measure['ratio'])}×"
    return (bound + _spread(measure) if _spread(measure) else "", paper)


def _spread(spread: Mapping[str, Any]) -> str:
    if spread.get("mean") is None:
        return ""
    mean = digits(spread["mean"])
    decimals = len(mean.partition(".")[2])
    return f"{mean} ±{spread['std']:.{decimals}f}" if spread.get("std") else mean


def _times(value: Number) -> str:
    return "" if value is None else f"{digits(value)}×"


def _share(saved: Mapping[str, Any], key: str, rival: str) -> str:
    if saved.get(key) is None:
        return ""
    return percent(saved[key]) + (f" ({saved[rival]})" if saved.get(rival) else "")


def _round_seconds(printed: Mapping[str, Any]) -> Number:
    return _divided(printed.get("seconds"), printed.get("rounds"))


def _divided(value: Number, by: Number) -> Number:
    return None if value is None or not by else value / by


def _rest(ratio: Number) -> Number:
    return None if ratio is None else 1 - ratio
