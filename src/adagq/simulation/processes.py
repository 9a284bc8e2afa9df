"""Worker processes.

    with open_pool(workers=2) as pool: …

One worker is this process itself. Processes share memory that has no name, so a kill leaves nothing behind; workers end
when the process that started them does, also when that is killed.
"""

import contextlib
import multiprocessing
import os
import queue
import signal
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Collection, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import DupFd
from typing import Any

from adagq.client.replica import Replica
from adagq.core.errors import AdagqError, ConfigError
from adagq.core.modules import GUARD, NO_GUARD
from adagq.core.vectors import Layout
from adagq.simulation.board import Board, nameless_file
from adagq.simulation.pool import Crash, InProcess, Pool, Recipe, Worker, result_of

Workers = int | str  # so many processes, or where a Ray cluster is
QUEUED = 2  # jobs a worker holds: one running, one waiting, so that it never waits for the server


class ProcessPool(Pool):
    """Several processes, one pipe each: models go out through shared memory, payloads come back in pipes."""

    def __init__(self, workers: int) -> None:
        super().__init__()
        self._memory = nameless_file()
        self._board: Board | None = None
        self._slots: dict[int, int] = {}  # model -> place on the board
        self._versions: dict[int, int] = {}  # of the models
        self._backlog: deque[tuple[int, tuple[Any, ...]]] = deque()
        self._done: dict[int, Any] = {}
        kinds = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("forkserver" if "forkserver" in kinds else "spawn")
        with contextlib.suppress(AttributeError):
            context.set_forkserver_preload(["torch", __name__])
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, _Shared(self._memory)), daemon=True)
            try:
                process.start()
            except OSError as error:
                raise _explained(error) from None
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        self._held: dict[Connection, deque[int]] = {pipe: deque() for pipe in self._pipes}

    @property
    def pids(self) -> list[int]:
        """The worker processes."""
        return [process.pid for process in self._processes]

    def prepare(self, recipe: Recipe, layout: Layout) -> None:
        self._finish()
        self._slots.clear()
        self._versions.clear()
        self._board = Board(self._memory, layout)
        for pipe in self._pipes:
            self._send(pipe, ("attach", layout, recipe))
        for reply in [self._receive_raw(pipe) for pipe in self._pipes]:  # all of them, also if one is an error
            result_of(reply)

    def publish(self, replica: Replica) -> int:
        assert self._board is not None, "prepare the pool first"
        model = next(self._numbers)
        self._slots[model] = next(slot for slot in range(len(self._slots) + 1) if slot not in self._slots.values())
        self._versions[model] = replica.version
        self._board.write(self._slots[model], replica)
        return model

    def retire(self, model: int) -> None:
        del self._slots[model], self._versions[model]

    def submit(self, kind: str, model: int, *arguments: Any) -> int:
        job = next(self._numbers)
        self._backlog.append((job, (kind, model, self._slots[model], self._versions[model], arguments)))
        self._hand_out()
        return job

    def wait(self, jobs: Collection[int]) -> tuple[int, Any]:
        while True:
            for job in jobs:
                if job in self._done:
                    return job, result_of(self._done.pop(job))
            for ready in wait([pipe for pipe, held in self._held.items() if held]):
                pipe: Any = ready
                self._done[self._held[pipe][0]] = self._receive_raw(pipe)
                self._held[pipe].popleft()
            self._hand_out()

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()  # the worker's end of the line: it leaves
        for process in self._processes:
            process.join(timeout=2)
            if process.is_alive():
                process.kill()
        self._board = None
        os.close(self._memory)

    def _hand_out(self) -> None:
        """Send jobs to workers that hold few, the emptiest first."""
        while self._backlog:
            pipe = min(self._held, key=lambda one: len(self._held[one]))
            if len(self._held[pipe]) >= QUEUED:
                return
            job, message = self._backlog.popleft()
            live = tuple(self._slots)
            self._send(pipe, (*message, live))
            self._held[pipe].append(job)

    def _finish(self) -> None:
        """Wait for jobs under way, whose results nobody wants any more."""
        self._backlog.clear()
        for pipe, held in self._held.items():
            while held:
                self._receive_raw(pipe)
                held.popleft()
        self._done.clear()

    def _send(self, pipe: Connection, message: tuple[Any, ...]) -> None:
        try:
            pipe.send(message)
        except OSError:
            raise self._died(pipe) from None

    def _receive_raw(self, pipe: Connection) -> Any:
        try:
            return pipe.recv()
        except (EOFError, OSError):
            raise self._died(pipe) from None

    def _died(self, pipe: Connection) -> AdagqError:
        process = self._processes[self._pipes.index(pipe)]
        process.join(timeout=1)
        if process.exitcode == NO_GUARD:
            return ConfigError(f"worker processes import your script, which runs adagq again: put it under `{GUARD}`")
        return AdagqError(f"worker process {process.pid} ended (exit code {process.exitcode}); out of memory?")


class _Shared:
    """A file that a process hands to those that it starts: over there it is a descriptor of theirs."""

    def __init__(self, file: int) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        return _received, (DupFd(self.file),)


def _received(handle: Any) -> _Shared:
    return _Shared(handle.detach())


def _explained(error: OSError) -> Exception:
    """Return the error, with a remedy where Python's fork server finds no place for its socket."""
    if "AF_UNIX" not in str(error):
        return error
    folder = tempfile.gettempdir()
    return AdagqError(f"{folder}: too long a path for the socket of worker processes; set TMPDIR to a shorter one")


def _leave_with_parent() -> None:
    """End at once when the process that started us has, even in the middle of a long job."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _listen(pipe: Connection, messages: "queue.SimpleQueue[Any]") -> None:
    """Take messages off the pipe at once: else both ends could wait for the other to read; None ends them."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            messages.put(pipe.recv())
    messages.put(None)


def _serve(pipe: Connection, memory: _Shared) -> None:
    """The life of a worker process: one message, one reply, until the line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, messages), daemon=True).start()
    worker, board = Worker(), None
    while (message := messages.get()) is not None:
        kind, *arguments = message
        reply: Any = None
        try:
            if kind == "attach":
                layout, recipe = arguments
                board = Board(memory.file, layout)
                worker.replicas.clear()
                worker.prepare(recipe)
            else:
                model, slot, version, given, live = arguments
                assert board is not None, "attach first"
                if model not in worker.replicas:
                    worker.replicas = {number: worker.replicas[number] for number in live if number in worker.replicas}
                    worker.replicas[model] = board.read(slot, version)
                reply = getattr(worker, kind)(model, *given)
        except AdagqError as error:
            reply = error
        except Exception:
            reply = Crash(traceback.format_exc())
        try:
            pipe.send(reply)
        except OSError:
            return


@contextlib.contextmanager
def open_pool(workers: Workers) -> Iterator[Pool]:
    """Start the workers and end them with the block; "ray…" is a cluster, as `ray_pool` says."""
    if isinstance(workers, str):
        from adagq.simulation.ray_pool import open_ray

        with open_ray(workers) as pool:
            yield pool
        return
    if workers <= 1:
        yield InProcess()
        return
    processes = ProcessPool(workers)
    try:
        yield processes
    finally:
        processes.close()
