"""Flower's SuperExec that a SuperNode can wake, and whose processes come from a nursery.

    SuperNode ─ pipe → SuperExec ─ orders → nursery ── fork: flwr-clientapp, one a message
                                               ↑ requests │
                                               └──────────┴ fork: resident learner, one a run

Flower starts `flwr-clientapp` as a program: a second of imports for every message. The nursery (`nursery`) has it all
imported and forks. Linux only: elsewhere forking after imports is not safe, and Flower's way is used.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from logging import WARNING
from time import sleep
from typing import IO, Any, Final

from flwr.supercore import log

from adagq.flower.nursery import CLIENT_APP, open_nursery
from adagq.flower.polling import replace_call, replace_sleep
from adagq.flower.supernode import WAKE_VARIABLE

LOOP: Final = "flwr.supercore.superexec.run_superexec"
EXECUTOR: Final = "flwr.supercore.superexec.executor.subprocess_executor"
MOST_WAKES: Final = 4096  # that are read at once


def main() -> None:
    """Run `flower-superexec`, with a nursery where that is possible."""
    if sys.platform == "linux":
        orders = open_nursery()
        if not replace_call(EXECUTOR, "subprocess", lambda module: _Subprocess(module, orders)):
            log(WARNING, "This release of Flower starts ClientApps its own way")
    if (awake := os.environ.pop(WAKE_VARIABLE, "")) and not replace_sleep(LOOP, waiting(int(awake))):
        log(WARNING, "This release of Flower looks for tasks at its own pace")
    from flwr.supercore.cli import flower_superexec

    sys.argv[0] = "flower-superexec"
    flower_superexec()


def waiting(awake: int) -> Callable[[float], object]:
    """Return a `sleep` that ends as soon as something is in this pipe; when nobody can write any more, a plain one."""

    def wait(seconds: float) -> None:
        if not select.select([awake], [], [], seconds)[0]:
            return
        if not os.read(awake, MOST_WAKES):
            sleep(seconds)

    return wait


class _Subprocess:
    """The module `subprocess` that lets the nursery fork ClientApps, and starts everything else as programs."""

    def __init__(self, module: Any, orders: IO[bytes]) -> None:
        self._module = module
        self._orders = orders

    def Popen(self, command: list[str], **options: Any) -> "subprocess.Popen[bytes] | None":  # noqa: N802
        if command[0] == CLIENT_APP and not options:
            try:
                self._orders.write(json.dumps(command).encode() + b"\n")
                return None
            except OSError as error:
                log(WARNING, "The nursery is gone (%s): ClientApps are started as programs", error)
        started: subprocess.Popen[bytes] = self._module.Popen(command, **options)
        return started

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


if __name__ == "__main__":
    main()
