"""Thousands of rounds take the memory and the file handles of the first few, and every row is written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command import SMALL, environment

SCRIPT = """
import json, os, sys
from pathlib import Path
from adagq.experiments.config import load_config
from adagq.experiments.runner import run

out, rounds, every = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
config = load_config(None, [*json.loads(sys.argv[4]), f"training.max_rounds={rounds}"])
for step in run(config, out):
    if step.row["round"] % every == 0:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        print(step.row["round"], pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd")), flush=True)
"""


@pytest.mark.parametrize(
    ("rounds", "settled", "growth_mb"), [(150, 50, 4.0), pytest.param(2000, 200, 4.0, marks=pytest.mark.slow)]
)
def test_memory_and_files_stay_flat(tmp_path: Path, rounds: int, settled: int, growth_mb: float) -> None:
    out, settings = tmp_path / "run", json.dumps(['methods=["adagq-fit+residual"]', *SMALL[1::2]])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(out), str(rounds), str(settled), settings],
        capture_output=True, text=True, check=False, env=environment(tmp_path / "t"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    table = [[int(cell) for cell in line.split()] for line in done.stdout.splitlines()]
    assert [line[0] for line in table] == list(range(settled, rounds + 1, settled))
    memory, files = [line[1] / 1e6 for line in table], [line[2] for line in table]
    print(f"{rounds} rounds: {memory[0]:.1f} MB after {settled}, at most {max(memory):.1f} MB, {files[-1]} open files")
    assert max(memory) - memory[0] < growth_mb, memory
    assert set(files) == {files[0]}
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text("utf-8").splitlines()]
    assert [row["round"] for row in rows] == list(range(1, rounds + 1))
    assert len((out / "ledger.jsonl").read_text("utf-8").splitlines()) == 3 * rounds
