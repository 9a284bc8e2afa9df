"""A file in the run directory pauses a run: `adagq pause RUN`, `adagq resume RUN`.

The round under way is closed first; nothing is lost and nobody trains in vain. Nodes stay connected, and what they
take in between is in no round's seconds.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from adagq.core.errors import CheckpointError

PAUSED: Final = "paused"
LOOK_SECONDS: Final = 0.5


def pause(run_dir: Path) -> bool:
    """Let no further round of this run begin; return whether it was not paused before."""
    path = _file(run_dir)
    before = path.exists()
    path.touch()
    return not before


def resume(run_dir: Path) -> bool:
    """Let the run go on; return whether it was paused."""
    path = _file(run_dir)
    before = path.exists()
    path.unlink(missing_ok=True)
    return before


def is_paused(run_dir: Path) -> bool:
    """Whether the next round waits for `resume`."""
    return (run_dir / PAUSED).exists()


def wait_while_paused(run_dir: Path | None, say: Callable[[str], object]) -> None:
    """Return when the run may go on; at once where it is not paused."""
    if run_dir is None or not is_paused(run_dir):
        return
    say(f"Paused: `adagq resume {run_dir}` lets the next round begin")
    begun = time.monotonic()
    while is_paused(run_dir):
        time.sleep(LOOK_SECONDS)
    say(f"Resumed after {time.monotonic() - begun:.0f} s")


def _file(run_dir: Path) -> Path:
    if not run_dir.is_dir():
        raise CheckpointError(f"{run_dir} is not a run directory: there is no such folder")
    return run_dir / PAUSED
