"""`adagq node`: Flower's own SuperNode, started by its own entry point, that finds its work in tenths of a second.

    SuperNode    looks for messages every 3 s, for replies every 0.5 s    → every POLL_SECONDS
    SuperExec    looks for tasks every second                             → every POLL_SECONDS
    ClientApp    a new Python for every message, 1 s of imports           → forked from a warm one (`superexec`)

Every flag is Flower's. Where a release of Flower keeps these things elsewhere, a warning says so and the SuperNode runs
as `flower-supernode` does.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from logging import WARNING
from typing import Any, Final

from flwr.supercore import log

from adagq.flower.polling import look_for_chunks_often, replace_call, shorten_sleeps

POLL_SECONDS: Final = 0.2
POLL_VARIABLE: Final = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"
LOOP: Final = "flwr.supernode.start_client_internal"
SUPEREXEC: Final = "flower-superexec"


def run(arguments: Sequence[str], poll_seconds: float = POLL_SECONDS) -> None:
    """Run a SuperNode with Flower's own arguments until it is stopped."""
    quicken(poll_seconds)
    from flwr.supernode.cli import flower_supernode

    sys.argv = ["flower-supernode", *arguments]
    flower_supernode()


def quicken(poll_seconds: float) -> None:
    """Shorten what a SuperNode of this process waits for; warn of what this release of Flower does not let."""
    os.environ.setdefault(POLL_VARIABLE, str(poll_seconds))
    steps = {
        "looking for messages": shorten_sleeps(LOOP, poll_seconds),
        "looking for chunks": look_for_chunks_often(LOOP),
        "warm ClientApp processes": replace_call(LOOP, "subprocess", _Subprocess),
    }
    if missing := [name for name, done in steps.items() if not done]:
        log(WARNING, "This release of Flower keeps these at its own pace: %s", ", ".join(missing))


class _Subprocess:
    """The module `subprocess` that starts our SuperExec in place of Flower's program of that name."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def Popen(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":  # noqa: N802
        if list(command[:1]) == [SUPEREXEC]:
            command = [sys.executable, "-m", "adagq.flower.superexec", *command[1:]]
        started: subprocess.Popen[bytes] = self._module.Popen(command, **options)
        return started

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
