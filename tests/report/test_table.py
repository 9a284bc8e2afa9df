"""summary_table and number formats: what a person reads in the terminal."""

import doctest
import io
from typing import Any

import pytest
from rich.console import Console

from adagq.report import summarize, summary_table, units
from adagq.report.table import sheet
from made_up import rows_and_ledger

Lines = list[dict[str, Any]]


def text_of(summary: dict[str, Any], width: int = 80) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(summary_table(summary))
    return console.export_text()


def test_fits_in_80_columns_with_nothing_cut(run_lines: tuple[Lines, Lines]) -> None:
    text = text_of(summarize(run_lines[0], 0.85))
    assert "…" not in text
    words = ("rounds", "up", "down", "MB", "compute", "upload", "tax", "speed-")
    assert all(word in text for word in words)
    assert max(map(len, text.splitlines())) <= 80
    assert all(method in text for method in {row["method"] for row in run_lines[0]})
    assert "±" in text


def test_a_miss_and_a_scale_are_said(run_lines: tuple[Lines, Lines]) -> None:
    text = text_of(summarize(run_lines[0], 0.85, payload_scale=15.9), width=200)
    assert "topk missed 85 %: got to 69" in text
    assert "payload_scale = 15.9" in text
    assert "payload_scale" not in text_of(summarize(run_lines[0], 0.85))


def test_one_seed_has_no_deviation() -> None:
    text = text_of(summarize(rows_and_ledger(("qsgd",), seeds=1)[0], 0.85), width=200)
    assert "±" not in text
    assert "one seed" in text


def test_a_deployment_shows_the_servers_part_so_that_the_columns_add_up() -> None:
    rows = rows_and_ledger(("adagq-fit",), seeds=1)[0]
    assert "server" not in text_of(summarize(rows, 0.85)).partition("Data per client")[0]
    for row in rows:
        row |= {"clock": "measured", "server_seconds": 30.0}
    text = text_of(summarize(rows, 0.85))
    assert "server" in text.partition("Data per client")[0]
    assert "server's own time" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "0.0123 s"), (119.0, "119 s"), (150.0, "2.50 min"), (7300.0, "2.03 h"), (260_000.0, "3.01 d")],
)
def test_seconds(seconds: float, text: str) -> None:
    assert units.seconds_text(seconds) == text


def test_units_by_example() -> None:
    assert doctest.testmod(units).failed == 0
    assert units.bytes_text(0) == "0 B"
    assert units.digits(45_678) == "45\u202f678"
    assert units.percent(0.85) == "85 %"
    assert units.percent(0.8512) == "85.1 %"


def test_differential_privacy_is_said_with_what_was_spent_in_the_last_round() -> None:
    rows = rows_and_ledger(("adagq-fit",), seeds=1)[0]
    assert "Differential privacy" not in text_of(summarize(rows, 0.85), width=200)
    for row in rows:
        row |= {"epsilon": 0.5 * row["round"], "delta": 1e-5}
    summary = summarize(rows, 0.85)
    last = max(row["round"] for row in rows)
    assert summary["methods"]["adagq-fit"]["epsilon"]["mean"] == 0.5 * last
    text = " ".join(text_of(summary).split())
    assert "Differential privacy of each client at delta = 1e-05, epsilon: adagq-fit" in text


def test_parts_of_the_time_are_hardly_finer_than_the_whole() -> None:
    rows = rows_and_ledger(("qsgd",), seeds=1)[0]
    for row in rows:
        row["upload_seconds"] = 1e-4
    table = sheet(summarize(rows, 0.85))
    cells = dict(zip((name.split()[0] for name in table.columns), table.lines[0].cells, strict=True))
    assert cells["upload"].mean.strip("0.") == ""
    assert len(cells["upload"].mean) <= len(cells["time"].mean) + 1


def test_columns_that_compare_are_there_where_there_is_something_to_compare_with() -> None:
    alone = sheet(summarize(rows_and_ledger(("qsgd",), seeds=1)[0], 0.85))
    assert not {"tax", "speed-up vs fedavg"} & set(alone.columns)
    both = sheet(summarize(rows_and_ledger(("qsgd", "fedavg", "ideal"), seeds=1)[0], 0.85))
    assert both.columns[-2:] == ("tax", "speed-up vs fedavg")
