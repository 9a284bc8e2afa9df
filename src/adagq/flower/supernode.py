"""`adagq node`: Flower's own SuperNode, started by its own entry point, that finds its work in tenths of a second.

    SuperNode    looks for messages every 3 s                          → every POLL_SECONDS
                 for the app's reply, in its own memory, every 0.5 s   → every REPLY_SECONDS
    SuperExec    looks for tasks every second                          → at once: the SuperNode wakes it through a pipe
    ClientApp    a new Python for every message, 1 s of imports        → forked from a warm one (`superexec`)

Every flag is Flower's. Where a release of Flower keeps these things elsewhere, a warning says so and the SuperNode runs
as `flower-supernode` does.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from logging import WARNING
from time import sleep
from typing import Any, Final

from flwr.supercore import log

from adagq.flower.polling import look_for_chunks_often, replace_call, replace_sleep

POLL_SECONDS: Final = 0.2
REPLY_SECONDS: Final = 0.02
NO_MESSAGE_SECONDS: Final = 1.0  # Flower sleeps longer than this only when there was no message
POLL_VARIABLE: Final = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"
WAKE_VARIABLE: Final = "ADAGQ_WAKE"  # the end of the pipe that wakes the SuperExec
LOOP: Final = "flwr.supernode.start_client_internal"
PULL: Final = "_pull_and_store_message"
SUPEREXEC: Final = "flower-superexec"


def run(arguments: Sequence[str], poll_seconds: float = POLL_SECONDS) -> None:
    """Run a SuperNode with Flower's own arguments until it is stopped."""
    quicken(poll_seconds)
    from flwr.supernode.cli import flower_supernode

    sys.argv = ["flower-supernode", *arguments]
    flower_supernode()


def quicken(poll_seconds: float) -> None:
    """Shorten what a SuperNode of this process waits for; warn of what this release of Flower does not let."""
    awake, wake = os.pipe()
    os.set_blocking(wake, False)

    def wait(seconds: float) -> None:
        sleep(min(seconds, poll_seconds if seconds > NO_MESSAGE_SECONDS else REPLY_SECONDS))

    steps = {
        "looking for messages": replace_sleep(LOOP, wait),
        "looking for chunks": look_for_chunks_often(LOOP),
        "warm ClientApp processes": replace_call(LOOP, "subprocess", lambda module: _Subprocess(module, awake)),
        "waking the SuperExec": replace_call(LOOP, PULL, lambda pull: _waking(pull, wake)),
    }
    if not steps["waking the SuperExec"]:
        os.environ.setdefault(POLL_VARIABLE, str(poll_seconds))
    if missing := [name for name, done in steps.items() if not done]:
        log(WARNING, "This release of Flower keeps these at its own pace: %s", ", ".join(missing))


def _waking(pull: Callable[..., int | None], wake: int) -> Callable[..., int | None]:
    """Return `pull` that wakes the SuperExec when a message is there, with all of its objects."""

    def pull_and_wake(*arguments: Any, **options: Any) -> int | None:
        run_id = pull(*arguments, **options)
        if run_id is not None:
            with suppress(OSError):  # it is awake already, or gone
                os.write(wake, b"1")
        return run_id

    return pull_and_wake


class _Subprocess:
    """The module `subprocess` that starts our SuperExec in place of Flower's program of that name."""

    def __init__(self, module: Any, awake: int) -> None:
        self._module = module
        self._awake = awake

    def Popen(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":  # noqa: N802
        if list(command[:1]) == [SUPEREXEC]:
            command = [sys.executable, "-m", "adagq.flower.superexec", *command[1:]]
            options |= {"pass_fds": (self._awake,), "env": os.environ | {WAKE_VARIABLE: str(self._awake)}}
        started: subprocess.Popen[bytes] = self._module.Popen(command, **options)
        return started

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
