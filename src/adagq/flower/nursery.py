"""A process with one thread that has everything imported, and forks what a node needs.

An order is a line of JSON: the arguments of the program that the child is to be, `flwr-clientapp` or the resident
learner. Orders come from the SuperExec; when it is gone, so is the nursery, and with it every ClientApp: they
would go on trying to reach their SuperNode. A ClientApp asks for its resident through a second pipe, the requests. A
resident takes its socket away and leaves by itself.
"""

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Final

from adagq.flower.local.processes import ending_with_parent
from adagq.flower.polling import look_for_chunks_often

CLIENT_APP: Final = "flwr-clientapp"
RESIDENT: Final = "adagq-resident"
CHUNKS: Final = "flwr.supercore.inflatable.inflatable_utils"
MOST_BYTES: Final = 65536  # that are read at once
Program = Callable[[], None]

_requests: int | None = None  # in a child: where it may ask for a resident


def open_nursery() -> IO[bytes]:
    """Fork the nursery; return the pipe for orders."""
    reading, writing = os.pipe()
    end_with_superexec = ending_with_parent()
    if os.fork() == 0:
        if end_with_superexec is not None:
            end_with_superexec()  # also while it imports or compiles, and sees no pipe
        os.close(writing)
        _serve(reading)
        os._exit(0)
    os.close(reading)
    return os.fdopen(writing, "wb", buffering=0)


def request_resident(arguments: list[str]) -> bool:
    """Let the nursery that forked this process fork a resident; return whether there is one to ask."""
    if _requests is None:
        return False
    with suppress(OSError):
        os.write(_requests, json.dumps([RESIDENT, *arguments]).encode() + b"\n")
        return True
    return False


def _serve(orders: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children leave no trace in the process table
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when the pipe of its orders does
    programs, warm_up = _prepared()
    requests, requesting = os.pipe()
    end_with_nursery = ending_with_parent()
    for command in _commands(orders, requests, warm_up):
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.close(orders)
            os.close(requests)
            if command[0] == RESIDENT:
                os.close(requesting)
                os.setsid()
            else:
                global _requests
                _requests = requesting
                if end_with_nursery is not None:
                    end_with_nursery()
            sys.argv = command
            os._exit(_exit_code(programs[command[0]]))


def _prepared() -> tuple[dict[str, Program], Callable[[], object]]:
    """Import what the children need; return what they run, and what is left to do when nobody waits."""
    from flwr.supernode.cli import flwr_clientapp

    import adagq.flower.handover  # noqa: F401
    from adagq.flower.resident import load_kernels, main

    look_for_chunks_often(CHUNKS)
    return {CLIENT_APP: flwr_clientapp, RESIDENT: main}, load_kernels


def _commands(orders: int, requests: int, warm_up: Callable[[], object]) -> Iterator[list[str]]:
    """Yield what comes through either pipe, until the first one ends."""
    begun = {orders: b"", requests: b""}  # lines that have not ended yet
    cold = True
    while True:
        if cold and not select.select([orders, requests], [], [], 0)[0]:
            cold = False
            warm_up()
        for pipe in select.select([orders, requests], [], [])[0]:
            data = os.read(pipe, MOST_BYTES)
            if not data and pipe == orders:
                return
            *lines, begun[pipe] = (begun[pipe] + data).split(b"\n")
            yield from map(json.loads, lines)


def _exit_code(program: Program) -> int:
    try:
        program()
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0
