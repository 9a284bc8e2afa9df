"""The resident learner: the process that holds one node's model, data and compiled kernels while a run lasts.

    SuperNode ─ SuperExec ─ flwr-clientapp (one a message) ══ Unix socket ══ resident

It answers with `node.answer`, as Flower's process would, with a learner that is made once. It leaves when Flower's
process on this node is gone, soon after the run's last round, or when nobody has asked for a while, and takes its
socket with it. The last reply of a round is kept: a task that is asked again, because its upload broke off, is answered
without training again.
"""

import json
import os
import select
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import xxhash
from flwr.app import ConfigRecord, Context, RecordDict

from adagq.client.learner import Learner
from adagq.codecs import QSGD, decode
from adagq.core.messages import Sync, Task
from adagq.flower.frames import (
    context_from_part,
    receive_parts,
    records_from_parts,
    records_to_parts,
    send_parts,
)
from adagq.flower.local.processes import Process, be_resident
from adagq.flower.named_learner import make_of
from adagq.flower.names import LAST, NODE, RUN
from adagq.flower.node import STATE, answer
from adagq.flower.records import holds
from adagq.flower.sockets import UntrustedSocketError, check_peer, forget, listening

RECEIVE_SECONDS: Final = 120.0  # that a message on this machine may take
WATCH_SECONDS: Final = 0.2
LAST_SECONDS: Final = 30.0  # after the last round: its upload may break off, and be asked for again


class Resident:
    """One node's learner of one run, and its last reply."""

    def __init__(self) -> None:
        self._learner: Learner | None = None
        self._answered = 0  # digest of the message that was answered last
        self._reply = RecordDict()

    def answer(self, asked: RecordDict, context: Context, reference: str, digest: int) -> RecordDict:
        """Return the reply; the last one again if the message is the last one again."""
        if digest == self._answered:
            node: dict[str, Any] = {"started-at": time.time(), "seconds": 0.0, "version": self._reply[NODE]["version"]}
            return RecordDict({**self._reply, NODE: ConfigRecord(node)})
        reply = answer(asked, context, lambda context: self._made(reference, context))
        complete = "version" in reply[NODE] and not reply[NODE].keys() & {"crashed", "stale", "diverged"}
        self._answered, self._reply = (digest, reply) if complete else (0, RecordDict())
        return reply

    def _made(self, reference: str, context: Context) -> Learner:
        if self._learner is None:
            self._learner = make_of(reference)(context)
        return self._learner


def serve(path: Path, owner: Process, idle_seconds: float) -> None:
    """Answer at `path` until the owner is gone, the run is over or nobody asks for so long."""
    be_resident()
    server = listening(path)
    threading.Thread(target=_leave_with, args=(owner, path), daemon=True).start()
    resident = Resident()
    server.settimeout(idle_seconds)
    try:
        while True:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                return
            with connection:
                last = _answer_one(connection, resident)
            if last:
                server.settimeout(min(idle_seconds, LAST_SECONDS))
    finally:
        forget(path)


def _answer_one(connection: socket.socket, resident: Resident) -> bool:
    """Answer one message; return whether it was the run's last."""
    connection.settimeout(RECEIVE_SECONDS)
    try:
        check_peer(connection)
        header, context_part, *parts = receive_parts(connection)
    except (OSError, EOFError, ValueError, UntrustedSocketError):
        return False  # it only looked whether we are here, or is not ours
    said: dict[str, Any] = json.loads(header)
    sys.path.extend(entry for entry in said["path"] if entry not in sys.path)
    context, asked = context_from_part(context_part), records_from_parts(parts)
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(part)
    reply = resident.answer(asked, context, str(said["learner"]), digest.intdigest())
    kept = RecordDict({STATE: context.state[STATE]}) if STATE in context.state else RecordDict()
    with suppress(OSError):  # Flower's process was ended meanwhile: the server may ask again
        send_parts(connection, [*records_to_parts(kept), *records_to_parts(reply)])
    if not holds(asked, Sync) and not holds(asked, Task):
        load_kernels()
    run = asked.get(RUN)
    return isinstance(run, ConfigRecord) and bool(run.get(LAST, False))


def load_kernels() -> None:
    """Load the compiled kernels of the usual codec, before the first update needs them."""
    decode(QSGD(levels=15, packing="entropy", rounding="dither").encode(np.ones(64, np.float32), 0))


def _leave_with(owner: Process, path: Path) -> None:
    """End this process as soon as the owner is gone, whatever the learner does."""
    while owner.alive:
        _wait_for_end(owner.pid)
    forget(path)
    os._exit(0)


def _wait_for_end(pid: int) -> None:
    """Return soon after the process has ended; on Linux at once."""
    if not hasattr(os, "pidfd_open"):
        time.sleep(WATCH_SECONDS)
        return
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        time.sleep(WATCH_SECONDS)
        return
    try:
        select.select([descriptor], [], [])
    finally:
        os.close(descriptor)


def main() -> None:
    path, pid, began, idle_seconds = sys.argv[1:]
    serve(Path(path), Process(int(pid), began), float(idle_seconds))


if __name__ == "__main__":
    main()
