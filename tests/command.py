"""The `adagq` command as a process of its own, for tests that kill it, starve it or run it twice."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "adagq.cli"]
# Digits, three clients, a small perceptron: rounds of milliseconds, and a target that is never reached.
SMALL = [
    *("--set", "task.model=mlp", "--set", "task.width=24", "--set", "task.clients=3"),
    *("--set", "task.samples_per_client=40", "--set", "task.test_samples=100", "--set", "training.target=1.0"),
]


def environment(temporary: Path, **extra: str) -> dict[str, str]:
    """Return the environment of a command whose temporary files go to `temporary`."""
    temporary.mkdir(exist_ok=True)
    return {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary), **extra}


def adagq(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end."""
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, **options)
