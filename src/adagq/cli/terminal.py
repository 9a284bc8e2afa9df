"""What the terminal shows besides the comparison: live progress, and the tables of a plan, methods and settings.

The wall clock is read here and in benchmarks only: it says how long a person still has to wait.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from adagq.benchmarks.advise import Advice
from adagq.codecs import ErrorFeedback
from adagq.experiments.plan import Plan, ends, sweep
from adagq.experiments.plan_input import PlanInput
from adagq.experiments.runner import Step
from adagq.experiments.settings_help import Setting
from adagq.methods.table import Method
from adagq.report.units import percent, seconds_text, time_word

LOG_SECONDS = 60.0  # where no terminal shows a bar, a line says at most this often how far a run is


@dataclass
class Forecast:
    """Seconds left of `runs` runs, from the rounds that were seen: a resumed run has more behind it than these.

    The first round of a run has start-up in it (kernels that compile, nodes that join): it says nothing of the others.
    """

    runs: int
    max_rounds: int
    _lengths: list[int] = field(default_factory=list)  # of the runs that have ended, in rounds
    _rounds: int = 0  # of these runs, as far as seen, after their first
    _seconds: float = 0.0

    def end_run(self, round: int, rounds: int, seconds: float) -> None:
        """Note a run that ended with `round`, its last `rounds` in `seconds`."""
        self._lengths.append(round)
        self._rounds += rounds
        self._seconds += seconds

    def text(self, round: int, rounds: int, seconds: float) -> str:
        """Return the time left in words; empty before there is a pace to tell it by."""
        if not rounds and not self._rounds:
            return ""
        bound = "about" if self._lengths else "at most"
        return f", {bound} {seconds_text(self.seconds_left(round, rounds, seconds))} left"

    def seconds_left(self, round: int, rounds: int, seconds: float) -> float:
        """Return the seconds left when the present run has come to `round`, its last `rounds` in `seconds`."""
        ended = len(self._lengths)
        usual = sum(self._lengths) / ended if ended else self.max_rounds
        before = self._seconds / self._rounds if self._rounds else seconds / rounds
        pace = seconds / rounds if rounds else before
        here = pace * max(usual - round, 0.25 * round if ended else 0)
        each = usual * before
        return here + each * max(self.runs - ended - 1, 0)


def show(steps: Iterable[Step], runs: int, max_rounds: int, console: Console) -> None:
    """Consume the steps of `runs` runs; a line stays for every run that has ended."""
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}"),
    )
    forecast = Forecast(runs, max_rounds)
    last: Step | None = None
    begun = ended = logged = time.perf_counter()
    rounds = 0  # of the present run, after its first
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("starting", total=runs, text="")
        for step in steps:
            now = time.perf_counter()
            if last is None or _name(last) != _name(step):
                if last is not None:
                    forecast.end_run(last.row["round"], rounds, ended - begun)
                    progress.advance(bar)
                    console.print(_line(last), highlight=False, soft_wrap=True)
                begun, rounds = now, 0
            else:
                rounds += 1
            last, ended = step, now
            text = _state(step) + forecast.text(step.row["round"], rounds, now - begun)
            progress.update(bar, description=_name(step), text=text)
            if not console.is_terminal and now - logged >= LOG_SECONDS:
                logged = now
                console.print(f"{_name(step):<24} {text}", highlight=False, soft_wrap=True)
    if last is not None:
        console.print(_line(last), highlight=False, soft_wrap=True)


def _name(step: Step) -> str:
    return f"{step.cell + ': ' if step.cell else ''}{step.method.name}, seed {step.seed}"


def _state(step: Step) -> str:
    row = step.row
    time_text = f"{time_word(row.get('clock', ''))} {seconds_text(row['seconds'])}"
    return f"round {row['round']}, {percent(row['accuracy'])}, {time_text}"


def _line(step: Step) -> str:
    return f"{_name(step):<24} {_state(step)}"


def plan_table(plan: Plan) -> Table:
    """Return the predicted round of every method, fastest progress first."""
    caption = f"{plan.verdict}\n{plan.assumption}"
    table = _table("One round, predicted", caption)
    table.add_column("method", no_wrap=True)
    for name in ("epochs", "bits up", "bits down", "compute s", "upload s", "down- load s", "round s", "tax"):
        table.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    for row in plan.methods:
        bits = (f"{row.upload_bits:.2f}", f"{row.download_bits:.1f}")
        seconds = (row.compute_seconds, row.upload_seconds, row.download_seconds, row.round_seconds)
        cells = (f"{row.local_epochs:g}", *bits, *(f"{value:.1f}" for value in seconds), f"{row.tax:.2f}")
        table.add_row(row.method, *cells, style="bold" if row.method == plan.best else "")
    return table


def advice_table(advice: Advice, task: str, rows: int) -> Table:
    """Return the rows of an advice in order of the expected time, and how far it can be trusted."""
    best = advice.choices[0]
    caption = (
        f"Take {best.name}. {advice.reason}\nConfidence {advice.confidence}.\nTimes are the leaderboard's to its own "
        f"target ({task}, 20 clients) on its fleet {advice.fleet!r}, scaled to yours; your task needs more or fewer "
        "rounds of any row. `adagq compare --fleet` measures."
    )
    table = _table("Expected on your fleet", caption)
    table.add_column("method", no_wrap=True)
    for name in ("minutes", "deviation", "bits up", "bits down", "round s", "rounds", "places"):
        table.add_column(name, justify="right", no_wrap=True)
    for choice in advice.choices[:rows]:
        row, standing = choice.round, choice.standing
        times = [f"{seconds / 60:.1f}" for seconds in (choice.seconds, choice.deviation)]
        bits = [f"{row.upload_bits:.2f}", f"{row.download_bits:.2f}"]
        rounds = [f"{row.round_seconds:.1f}", f"{standing.rounds:.0f}", f"{standing.first}–{standing.last}"]
        table.add_row(choice.name, *times, *bits, *rounds, style="bold" if choice is best else "")
    return table


def methods_table(rows: Iterable[Method]) -> Table:
    """Return the table of methods: what travels, who decides how much, local epochs, and what each is."""
    table = _table(
        "Methods", "Bold: what `adagq compare` runs unless methods are named. A suffix changes a row: qsgd+residual."
    )
    table.add_column("method", no_wrap=True)
    for name in ("up", "down", "decides", "epochs"):
        table.add_column(name, max_width=10)  # 80 columns leave the last one 13 letters
    table.add_column("what it is", ratio=1)
    for row in rows:
        parts = (_part_name(part) for part in (row.uplink, row.downlink, row.controller))
        table.add_row(row.name, *parts, f"{row.epochs:g}", row.description, style="bold" if row.compared else "")
    return table


def _part_name(part: Any) -> str:
    """Return what a codec or a controller is called in a narrow column; the codec inside where errors are fed back."""
    return f"{_part_name(part.inner)}, fed back" if isinstance(part, ErrorFeedback) else type(part).__name__


def settings_table(settings: Iterable[Setting]) -> Table:
    """Return every key with its type, default and meaning."""
    table = _table("Settings", "In TOML, or --set key=value.")
    table.add_column("key", no_wrap=True)
    table.add_column("default", max_width=18)
    table.add_column("meaning", ratio=1)
    for setting in settings:
        about = ", ".join(part for part in (setting.kind, setting.unit) if part)
        meaning = f"{escape(setting.meaning)} " if setting.meaning else ""
        default = "–" if setting.default in (None, (), {}) else _plain(setting.default)
        table.add_row(setting.key, default, f"{meaning}[dim]({escape(about)})[/]")
    return table


def _plain(value: Any) -> str:
    return ", ".join(map(_plain, value)) if isinstance(value, tuple) else str(value)


def _table(title: str, caption: str) -> Table:
    """Return an empty table that fits 80 columns: no frame, one space between columns."""
    look: Any = {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0), "show_edge": False, "title_style": "bold"}
    return Table(title=title, caption=caption, caption_justify="left", **look)


def draw_plan(given: PlanInput, path: Path) -> Path:
    """Draw the time saved from a hundredth of the given rates and compute time to a hundredfold."""
    from adagq.report import plan_heatmap

    factors = [10 ** (step / 10) for step in range(-20, 21)]
    slowest, compute = ends(given)
    grid = sweep(given, [factor * slowest for factor in factors], [factor * compute for factor in factors])
    saved = [list(line) for line in zip(*grid.saved, strict=True)]  # rows of the map are compute times
    return plan_heatmap(saved, [1e6 * rate for rate in grid.uplink_mbps], grid.compute_seconds, path)
