"""The table as CSV and LaTeX: as files, and as addresses on the page."""

import csv
import io
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from adagq.report import summarize, write_report
from adagq.report.export import table_csv, table_tex

Lines = list[dict[str, Any]]


def test_csv_has_plain_numbers(run_lines: tuple[Lines, Lines]) -> None:
    summary = summarize(run_lines[0], 0.85)
    rows = {row["method"]: row for row in csv.DictReader(io.StringIO(table_csv(summary)))}
    assert list(rows) == list(summary["methods"])
    fit = summary["methods"]["adagq-fit"]
    assert float(rows["adagq-fit"]["seconds"]) == float(f"{fit['seconds']['mean']:.6g}")
    assert float(rows["adagq-fit"]["upload_bytes_std"]) == float(f"{fit['upload_bytes']['std']:.6g}")
    missed = summary["methods"]["topk"]["missed"]
    assert rows["topk"]["reached"] == "0"
    assert float(rows["topk"]["seconds"]) == float(f"{missed['seconds']['mean']:.6g}")
    assert rows["topk"]["tax"] == ""


def test_latex_has_as_many_cells_in_every_line(run_lines: tuple[Lines, Lines]) -> None:
    text = table_tex(summarize(run_lines[0], 0.85, payload_scale=15.9))
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    columns = re.search(r"tabular}{(l r*|lr*)}", text)
    assert columns
    assert {len(re.split(r"(?<!\\)&", line)) for line in body} == {len(columns[1])}
    assert len(body) == 1 + 8
    assert r"$\pm$" in text
    assert "±" not in text.replace("% Data per client; mean ± standard deviation", "")
    assert "% topk missed 85 %" in text


def test_both_are_beside_the_page_and_on_it(run_dir: Path) -> None:
    page = write_report(run_dir, figures=False).read_text()
    for name in ("table.csv", "table.tex"):
        address = re.search(rf'download="{name}" href="data:[^,]+,([^"]+)"', page)
        assert address
        assert unquote(address[1]) == (run_dir / name).read_text()
