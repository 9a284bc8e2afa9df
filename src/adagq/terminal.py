"""What the terminal shows besides the comparison: live progress and the table of a plan.

The wall clock is read here and in benchmarks only: it tells how long a person still has to wait.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from adagq.experiment import Step
from adagq.planning import Plan, PlanInput, sweep
from adagq.report.units import percent, seconds_text, time_word

LOG_SECONDS = 60.0  # where no terminal shows a bar, a line tells at most this often how far a run is


@dataclass
class Forecast:
    """Seconds left of `runs` runs, from the rounds that were seen: a resumed run has more behind it than these."""

    runs: int
    max_rounds: int
    _lengths: list[int] = field(default_factory=list)  # of the runs that have ended, in rounds
    _rounds: int = 0  # of these runs, as far as seen
    _seconds: float = 0.0

    def end_run(self, round: int, rounds: int, seconds: float) -> None:
        """Note a run that ended with `round`, after `rounds` in `seconds`."""
        self._lengths.append(round)
        self._rounds += rounds
        self._seconds += seconds

    def seconds_left(self, round: int, rounds: int, seconds: float) -> float:
        """Return the seconds left when the present run has come to `round`, after `rounds` in `seconds`."""
        ended = len(self._lengths)
        usual = sum(self._lengths) / ended if ended else self.max_rounds
        pace = seconds / rounds
        here = pace * max(usual - round, 0.25 * round if ended else 0)
        each = usual * (self._seconds / self._rounds if ended else pace)
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
    begun = ended = told = time.perf_counter()
    rounds = 0
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=runs, text="")
        for step in steps:
            now = time.perf_counter()
            if last is not None and _name(last) != _name(step):
                forecast.end_run(last.row["round"], rounds, ended - begun)
                begun, rounds = ended, 0
                progress.advance(bar)
                console.print(_line(last), highlight=False, soft_wrap=True)
            last, ended = step, now
            rounds += 1
            left = forecast.seconds_left(step.row["round"], rounds, now - begun)
            text = f"{_state(step)}, about {seconds_text(left)} left"
            progress.update(bar, description=_name(step), text=text)
            if not console.is_terminal and now - told >= LOG_SECONDS:
                told = now
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
    table = Table(title="One round, predicted", caption=plan.verdict, caption_justify="left", box=SIMPLE_HEAD)
    table.add_column("method", no_wrap=True)
    for name in ("epochs", "bits up", "bits down", "compute s", "upload s", "download s", "round s", "tax"):
        table.add_column(name.replace(" ", "\n"), justify="right")
    for row in plan.methods:
        bits = (f"{row.upload_bits:.2f}", f"{row.download_bits:.1f}")
        seconds = (row.compute_seconds, row.upload_seconds, row.download_seconds, row.round_seconds)
        cells = (str(row.local_epochs), *bits, *(f"{value:.1f}" for value in seconds), f"{row.tax:.2f}")
        table.add_row(row.method, *cells, style="bold" if row.method == plan.best else "")
    return table


def draw_plan(given: PlanInput, path: Path) -> Path:
    """Draw the time saved from a hundredth of the given rates and compute time to a hundredfold."""
    from adagq.report import plan_heatmap

    factors = [10 ** (step / 10) for step in range(-20, 21)]
    grid = sweep(
        given,
        [factor * given.uplink_mbps[0] for factor in factors],
        [factor * given.compute_seconds for factor in factors],
    )
    saved = [list(line) for line in zip(*grid.saved, strict=True)]  # rows of the map are compute times
    return plan_heatmap(saved, [1e6 * rate for rate in grid.uplink_mbps], grid.compute_seconds, path)
