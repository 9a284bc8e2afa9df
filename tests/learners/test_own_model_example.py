"""`examples/own_model.py` runs, learns, and is as short as promised."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.py"


def test_own_model_example():
    assert len(EXAMPLE.read_text().splitlines()) < 40
    printed = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True).stdout
    before, after = (float(line.split()[-1]) for line in printed.splitlines())
    assert after > before + 0.2
