"""Failures and refusals on the page, if there were any."""

import json
from pathlib import Path

import pytest

from adagq.report import write_report
from adagq.report.incidents import client_incidents, incident_counts
from made_up import rows_and_ledger, write_run


@pytest.fixture
def flaky(tmp_path: Path) -> Path:
    rows, ledger = rows_and_ledger(["fedavg", "adagq"], seeds=2, rounds=5)
    for row in rows:
        row |= {"failed": 6, "refused": 1, "attempts": 2, "clients": 13} if row["method"] == "adagq" else {"failed": 0}
    write_run(tmp_path, rows, ledger)
    lines = [
        {"method": "adagq", "seed": 0, "round": k, "client": 3, "kind": kind, "reason": f"<b>{kind} in round {k}</b>"}
        for k in (1, 2)
        for kind in ("lost", "refused")
    ]
    (tmp_path / "incidents.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_counts_and_reasons_are_shown(flaky: Path) -> None:
    page = write_report(flaky, figures=False).read_text()
    assert "Who failed, and what was refused" in page
    assert "<td>200</td><td>60</td><td>10</td><td>10</td>" in page  # 10 rounds of 20 clients
    assert "<td>refused</td><td>2</td><td>&lt;b&gt;refused in round 1&lt;/b&gt;</td>" in page
    assert "lost in round" not in page


def test_nothing_is_shown_where_nothing_happened(tmp_path: Path) -> None:
    rows, ledger = rows_and_ledger(["fedavg"], seeds=1, rounds=3)
    write_run(tmp_path, rows, ledger)
    assert incident_counts(rows) == []
    assert client_incidents(tmp_path) == []
    assert "Who failed" not in write_report(tmp_path, figures=False).read_text()
