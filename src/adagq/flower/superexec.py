"""Flower's SuperExec, whose ClientApp processes are forked from one that has imported everything.

    SuperExec ── pipe ── nursery ── fork: flwr-clientapp, one a message

Flower starts `flwr-clientapp` as a program: a second of imports for every message. The nursery has one thread, imports
Flower and our handler once, and forks; each child then runs Flower's own entry point with the arguments that Flower
would have given it. Linux only: elsewhere forking after imports is not safe, and Flower's way is used. The nursery ends
with the SuperExec, when its pipe does.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from logging import WARNING
from typing import IO, Any, Final

from flwr.supercore import log

from adagq.flower.polling import look_for_chunks_often, replace_call

CLIENT_APP: Final = "flwr-clientapp"
CHUNKS: Final = "flwr.supercore.inflatable.inflatable_utils"


def main() -> None:
    """Run `flower-superexec`, with a nursery where that is possible."""
    if sys.platform == "linux":
        children = nursery()
        start = "flwr.supercore.superexec.executor.subprocess_executor"
        if not replace_call(start, "subprocess", lambda module: _Subprocess(module, children)):
            log(WARNING, "This release of Flower starts ClientApps its own way")
    from flwr.supercore.cli import flower_superexec

    sys.argv[0] = "flower-superexec"
    flower_superexec()


def nursery() -> IO[bytes]:
    """Fork the nursery; return the pipe that takes a line of JSON, the arguments, for each ClientApp."""
    run_clientapp = _prepared()
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(writing)
        with os.fdopen(reading, "rb") as orders:
            _fork_on_order(orders, run_clientapp)
        os._exit(0)
    os.close(reading)
    return os.fdopen(writing, "wb", buffering=0)


def _prepared() -> Callable[[], None]:
    """Import what a ClientApp process needs; return its entry point."""
    from flwr.supernode.cli import flwr_clientapp

    import adagq.flower.frames
    import adagq.flower.handover  # noqa: F401

    look_for_chunks_often(CHUNKS)
    entry: Callable[[], None] = flwr_clientapp
    return entry


def _fork_on_order(orders: IO[bytes], run_clientapp: Callable[[], None]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children leave no trace in the process table
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when the pipe does
    for line in orders:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.close(orders.fileno())
            sys.argv = json.loads(line)
            os._exit(_exit_code(run_clientapp))


def _exit_code(run_clientapp: Callable[[], None]) -> int:
    try:
        run_clientapp()
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


class _Subprocess:
    """The module `subprocess` that lets the nursery fork ClientApps, and starts everything else as programs."""

    def __init__(self, module: Any, children: IO[bytes]) -> None:
        self._module = module
        self._children = children

    def Popen(self, command: list[str], **options: Any) -> "subprocess.Popen[bytes] | None":  # noqa: N802
        if command[0] == CLIENT_APP and not options:
            try:
                self._children.write(json.dumps(command).encode() + b"\n")
                return None
            except OSError as error:
                log(WARNING, "The nursery is gone (%s): ClientApps are started as programs", error)
        started: subprocess.Popen[bytes] = self._module.Popen(command, **options)
        return started

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


if __name__ == "__main__":
    main()
