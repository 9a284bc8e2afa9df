"""status.json: what each node does now, beside the files of a run that are written when a round closes.

    {"round": 3, "at": 1700000000.0, "nodes": {"0": {"name": "partition-0", "state": "computing", "since": …}, …}}

`computing` from the second a node is asked (what it downloads and Flower's start of its process are in it), `sending`
from the first chunk of its answer, `waiting` when all of it is there, else the kind of its incident. `adagq watch`
reads it; it goes with the end of the run.
"""

import json
import threading
import time
from pathlib import Path
from typing import Any, Final

from adagq.core.atomic import draft_of

STATUS: Final = "status.json"


class Status:
    """The file of one run; without a run directory nothing is written."""

    def __init__(self, run_dir: Path | None) -> None:
        self._path = None if run_dir is None else run_dir / STATUS
        self._nodes: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def note(self, round: int, client: int, name: str, state: str) -> None:
        """Note what a node does from now on."""
        with self._lock:
            self._nodes[str(client)] = {"name": name, "state": state, "since": time.time()}
            if self._path is not None and self._path.parent.is_dir():
                text = json.dumps({"round": round, "at": time.time(), "nodes": self._nodes})
                draft_of(self._path).write_text(text, "utf-8")
                draft_of(self._path).replace(self._path)

    def remove(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
