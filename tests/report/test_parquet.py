"""Rows and ledger as Parquet: the same numbers, in pieces."""

import pytest

from adagq.core.jsonl import append_lines, read_lines
from adagq.report import parquet

pq = pytest.importorskip("pyarrow.parquet")


def test_rows_and_ledger_become_columns_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "PIECE", 2)
    ledger = [{"method": "a", "client": n, "levels": None if n < 3 else 1.5, "seconds": n / 3} for n in range(5)]
    append_lines(tmp_path / "ledger.jsonl", ledger)
    (written,) = parquet.write_parquet(tmp_path)  # there are no rows
    assert written.name == "ledger.parquet"
    assert pq.read_table(written).to_pylist() == ledger == list(read_lines(tmp_path / "ledger.jsonl"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.jsonl", "ledger.parquet"]
