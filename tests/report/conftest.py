"""Made-up runs, shared by the tests of the report."""

from pathlib import Path
from typing import Any

import pytest

from made_up import rows_and_ledger, write_run

Lines = list[dict[str, Any]]


@pytest.fixture(scope="session")
def run_lines() -> tuple[Lines, Lines]:
    """Eight methods, three seeds; topk misses the target of 85 %."""
    return rows_and_ledger(slow_learner="topk")


@pytest.fixture
def run_dir(tmp_path: Path, run_lines: tuple[Lines, Lines]) -> Path:
    return write_run(tmp_path / "run", *run_lines, payload_scale=15.9)
