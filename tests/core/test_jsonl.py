"""JSON lines: written whole, read one by one, a torn end dropped, any other damage named."""

import os
from pathlib import Path

import pytest

from adagq.core.errors import CheckpointError
from adagq.core.jsonl import append_lines, encoded_lines, read_lines

ROWS = [{"round": 1, "accuracy": 0.5}, {"round": 2, "accuracy": None, "method": "Ünï"}]


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert list(read_lines(path)) == []
    append_lines(path, ROWS[:1])
    append_lines(path, ROWS[1:])
    assert list(read_lines(path)) == ROWS
    assert path.read_bytes() == encoded_lines(ROWS)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_last_line_is_dropped(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(encoded_lines(ROWS)[:-cut])
    assert list(read_lines(path)) == ROWS[:1]


@pytest.mark.parametrize(("damage", "reason"), [(b"{oops\n", "not JSON"), (b"5\n", "object"), (b'"\xff"\n', "UTF-8")])
def test_any_other_bad_line_is_named(tmp_path: Path, damage: bytes, reason: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(encoded_lines(ROWS[:1]) + damage + encoded_lines(ROWS[1:]))
    with pytest.raises(CheckpointError, match=rf"rows\.jsonl, line 2: .*{reason}"):
        list(read_lines(path))


def test_nan_is_refused_and_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with pytest.raises(ValueError, match="not JSON compliant"):
        append_lines(path, [{"loss": float("nan")}])
    append_lines(path, ROWS)
    before = path.read_bytes()
    full = os.open("/dev/full", os.O_WRONLY) if Path("/dev/full").exists() else None
    if full is not None:
        with pytest.raises(OSError):
            append_lines(full, ROWS)
        os.close(full)
    assert path.read_bytes() == before
