"""`examples/own_model.py` runs, learns, and is as short as promised."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.py"
LINE = re.compile(r"(\S+): accuracy ([\d.]+) after (\d+) s, (\d+) bytes uploaded")


def test_own_model_example():
    assert len(EXAMPLE.read_text("utf-8").splitlines()) < 40
    printed = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True).stdout
    found = [LINE.fullmatch(line) for line in printed.splitlines()]
    assert all(found), printed
    assert [match[1] for match in found] == ["fedavg", "adagq-fit"]
    assert all(float(match[2]) >= 0.9 for match in found)  # the target, before max_rounds
    seconds, nbytes = ([int(match[group]) for match in found] for group in (3, 4))
    assert seconds[1] < seconds[0]
    assert nbytes[1] < nbytes[0]
