"""What a person sees of a long run: how far it is and how long it still takes, on a terminal and in a log."""

import io

import pytest
from rich.console import Console

from adagq.cli import terminal
from adagq.cli.terminal import Forecast, show
from adagq.experiments.runner import Step
from adagq.methods.table import method_of


def test_a_forecast_goes_by_the_rounds_that_were_seen() -> None:
    forecast = Forecast(runs=3, max_rounds=100)
    assert forecast.seconds_left(round=10, rounds=10, seconds=20.0) == 2.0 * 90 + 2 * 200.0  # till max_rounds
    forecast.end_run(round=40, rounds=40, seconds=80.0)
    assert forecast.seconds_left(round=10, rounds=10, seconds=30.0) == 3.0 * 30 + 80.0  # as long as the run before
    assert forecast.seconds_left(round=80, rounds=80, seconds=80.0) == 1.0 * 20 + 80.0  # longer: a quarter more


def test_a_resumed_run_is_as_fast_as_its_new_rounds() -> None:
    forecast = Forecast(runs=2, max_rounds=100)
    assert forecast.seconds_left(round=91, rounds=1, seconds=2.0) == 2.0 * 9 + 200.0
    forecast.end_run(round=100, rounds=10, seconds=20.0)
    assert forecast.seconds_left(round=50, rounds=50, seconds=100.0) == 2.0 * 50


def steps(*rounds: tuple[str, int]) -> list[Step]:
    return [
        Step(method_of(name), 0, {"round": number, "accuracy": 0.1 * number, "seconds": 60.0 * number})
        for name, number in rounds
    ]


def said(console: Console, *rounds: tuple[str, int]) -> list[str]:
    show(steps(*rounds), 2, 10, console)
    assert isinstance(console.file, io.StringIO)
    return [line for line in console.file.getvalue().splitlines() if line.strip()]


def test_a_log_has_a_line_for_every_run_and_every_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = (("qsgd", 1), ("qsgd", 2), ("ideal", 1))
    lines = said(Console(file=io.StringIO(), width=100), *rounds)
    assert [line.split(",")[0] for line in lines] == ["qsgd", "ideal"]
    assert "round 2, 20 %, virtual time 2.00 min" in lines[0]
    monkeypatch.setattr(terminal, "LOG_SECONDS", 0.0)
    lines = said(Console(file=io.StringIO(), width=40), *rounds)  # a log is as wide as its lines
    assert [line.split(",")[0] for line in lines] == ["qsgd", "qsgd", "qsgd", "ideal", "ideal"]
    assert "left" not in lines[0]  # one round tells nothing yet
    assert "at most" in lines[1]  # a run may end before max_rounds
    assert "about" in lines[3]
    assert all("left" in lines[index] for index in (1, 3))


def test_a_terminal_has_the_bar_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "LOG_SECONDS", 0.0)
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    assert sum("round 2, 20 %" in line and "left" not in line for line in said(console, ("qsgd", 1), ("qsgd", 2))) == 1


def test_the_first_round_of_a_run_says_nothing_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels compile in it: a minute, once, which used to become an hour for the rounds to come."""
    monkeypatch.setattr(terminal, "LOG_SECONDS", 0.0)
    clock = iter((0.0, 60.0, 61.0, 62.0, 122.0, 123.0))  # the start, three rounds of one run, two of the next
    monkeypatch.setattr(terminal.time, "perf_counter", lambda: next(clock))
    rounds = (("qsgd", 1), ("qsgd", 2), ("qsgd", 3), ("ideal", 1), ("ideal", 2))
    lines = said(Console(file=io.StringIO(), width=100), *rounds)
    assert "left" not in lines[0]
    assert "at most 18.0 s left" in lines[1]  # eight rounds here, ten of the next run
    assert "about 2.00 s left" in lines[4]  # lines[3] is the end of the first run
    assert "about 1.00 s left" in lines[5]


def test_a_log_has_no_empty_lines() -> None:
    console = Console(file=io.StringIO(), width=100)
    show(steps(("qsgd", 1), ("ideal", 1)), 2, 10, console)
    assert isinstance(console.file, io.StringIO)
    assert len(console.file.getvalue().splitlines()) == 2
