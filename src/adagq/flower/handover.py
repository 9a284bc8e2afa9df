"""Flower's short ClientApp process: hands its message to the resident learner and returns the reply.

The resident is started when there is none, and again when it is gone before it has answered. Where it cannot be
reached at all, this process does the work itself: the round goes on, as slowly as without a resident.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from logging import WARNING
from pathlib import Path
from typing import Any, Final

from flwr.app import Context, RecordDict
from flwr.supercore import log

from adagq.core.errors import AdagqError
from adagq.flower.local.processes import Process, began_of
from adagq.flower.named_learner import make_of
from adagq.flower.nursery import request_resident
from adagq.flower.sockets import connected, socket_path

FLOWERS_PROGRAM: Final = "flwr-clientapp"
RESIDENT: Final = "adagq.flower.resident"
START_SECONDS: Final = 60.0  # until a new resident takes connections
FORK_SECONDS: Final = 10.0  # the same, of one that the nursery forks
LOOK_SECONDS: Final = 0.02
ATTEMPTS: Final = 3
PAUSE_SECONDS: Final = 0.2  # between two attempts: a process that is ending may still take a connection
IDLE_SETTING: Final = "adagq-idle-seconds"  # of the node's config
IDLE_SECONDS: Final = 900.0  # after which a resident leaves


def reply_of(asked: RecordDict, context: Context, reference: str) -> RecordDict:
    """Return the reply to a message: the resident's in a deployment, this process's own elsewhere (on Ray)."""
    if Path(sys.argv[0]).name == FLOWERS_PROGRAM:
        owner = Process(os.getppid(), began_of(os.getppid()))
        try:
            return ask(asked, context, reference, owner)
        except (OSError, EOFError, AdagqError) as error:
            log(WARNING, "The resident learner cannot be used, this process does the work itself: %s", error)
    from adagq.flower.node import answer

    return answer(asked, context, lambda context: make_of(reference)(context))


def ask(asked: RecordDict, context: Context, reference: str, owner: Process) -> RecordDict:
    """Return what the resident of this run and node answers; it lives no longer than `owner`, Flower's process."""
    from adagq.flower.frames import context_to_part, receive_parts, records_from_parts, records_to_parts, send_parts

    path = socket_path(owner.pid, owner.began, context.run_id, context.node_id, reference)
    header = json.dumps({"learner": reference, "path": [entry for entry in sys.path if entry]}).encode()
    parts = [header, context_to_part(context), *records_to_parts(asked)]
    for attempt in range(1, ATTEMPTS + 1):
        with connected(path) or _started(path, owner, context) as connection:
            try:
                send_parts(connection, parts)
                kept, *reply = receive_parts(connection)
            except (ConnectionError, EOFError) as error:
                if attempt == ATTEMPTS:
                    raise
                log(WARNING, "The resident learner ended before it had answered (%s): starting it again", error)
                time.sleep(PAUSE_SECONDS)
                continue
            context.state.update(records_from_parts([kept]))
            return records_from_parts(reply)
    raise AssertionError("an attempt returns or raises")


def _started(path: Path, owner: Process, context: Context) -> Any:
    """Start a resident, detached from this process, and return a connection to it."""
    path.unlink(missing_ok=True)  # of one that was killed
    idle_seconds = float(context.node_config.get(IDLE_SETTING, IDLE_SECONDS))
    arguments = [str(path), str(owner.pid), owner.began, str(idle_seconds)]
    if request_resident(arguments) and (connection := _soon(path, FORK_SECONDS, lambda: True)) is not None:
        return connection
    command = [sys.executable, "-m", RESIDENT, *arguments]
    # The user's cache of compiled code and modules of the app: as they are here.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, env=environment)
    if (connection := _soon(path, START_SECONDS, lambda: child.poll() is None)) is not None:
        return connection
    if child.poll() is not None:
        raise AdagqError(f"the resident learner ended at once, with exit code {child.returncode}")
    child.kill()
    raise AdagqError(f"the resident learner took no connection within {START_SECONDS:.0f} s")


def _soon(path: Path, seconds: float, alive: Callable[[], bool]) -> Any:
    """Return a connection to a resident that was just started; None if it takes none in time or is gone."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if (connection := connected(path)) is not None:
            return connection
        if not alive():
            return None
        time.sleep(LOOK_SECONDS)
    return None
