"""Real federations for tests: on the loopback interface, in a folder of their own, gone at the end."""

import json
import os
from pathlib import Path
from typing import Any

from adagq.flower.local.cluster import Federation

ROOT = Path(__file__).parents[3]
QUICKSTART = ROOT / "examples" / "flower_quickstart"
FAULT_APP = Path(__file__).parent / "fault_app"


def rows_of(out: Path, name: str = "rows.jsonl") -> list[dict[str, Any]]:
    path = out / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


def finish(federation: Federation, app: Path, out: Path, seconds: float, **config: Any) -> list[dict[str, Any]]:
    """Run an app to its end and return its rows."""
    settings = {key.replace("_", "-"): value for key, value in config.items()}
    running = federation.run(app, {"out": str(out), **settings})
    assert running.wait(seconds) == 0, federation.tail("run", 20)
    rows = rows_of(out)
    assert rows, federation.tail("run", 20)
    return rows


def still_running(mark: str) -> list[int]:
    """Return the processes that have `mark` in their command or environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            text = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in text and int(path.name) != os.getpid():
            found.append(int(path.name))
    return found
