"""Worker processes.

    with open_pool(workers=2) as pool:
        pool.prepare(recipe, layout)               # every worker builds the population
        pool.broadcast(copy)                       # once a round, through shared memory
        for update in pool.run("work", tasks): …   # results in the order of the tasks, whoever finished first

One worker is this process itself. Processes share memory and files that have no name, so a kill leaves nothing behind;
workers end when the process that started them does, by whatever death.
"""

import contextlib
import mmap
import multiprocessing
import os
import signal
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

import numpy as np

from adagq.backends.workers import Alone, Pool, Recipe, Worker
from adagq.client import Copy
from adagq.errors import AdagqError
from adagq.vectors import FloatVector, Layout

QUEUED = 2  # jobs a worker holds: one running, one waiting, so that it never waits for the server
AHEAD = 8  # jobs per worker that may be finished before their turn: bounds the payloads held back


def _explained(error: OSError) -> Exception:
    """Return the error, with a remedy where Python's fork server finds no place for its socket."""
    if "AF_UNIX" not in str(error):
        return error
    folder = tempfile.gettempdir()
    return AdagqError(f"{folder}: too long a path for the socket of worker processes; set TMPDIR to a shorter one")


class Processes(Pool):
    """Several processes, one pipe each: models go out through shared memory, payloads come back in pipes."""

    def __init__(self, residuals: Path, workers: int) -> None:
        super().__init__(residuals)
        self._memory = os.memfd_create("adagq")
        self._board: Board | None = None
        kinds = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("forkserver" if "forkserver" in kinds else "spawn")
        with contextlib.suppress(AttributeError):
            context.set_forkserver_preload(["torch", __name__])
        self._pipes: list[Connection] = []
        self._processes = []
        file = os.open(residuals, os.O_RDWR | os.O_CREAT, 0o600)
        shared = _Shared(self._memory), _Shared(file)
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, *shared), daemon=True)
            try:
                process.start()
            except OSError as error:
                raise _explained(error) from None
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        os.close(file)

    def prepare(self, recipe: Recipe, layout: Layout) -> None:
        self._drop_board()
        self._board = Board.over(self._memory, layout)
        self._tell_all("attach", layout)
        self._tell_all("prepare", recipe)

    def broadcast(self, copy: Copy) -> None:
        assert self._board is not None, "prepare the pool first"
        self._board.write(copy)
        self._tell_all("read", copy.version)

    def run(self, kind: str, items: Sequence[Any]) -> Iterator[Any]:
        held: dict[Connection, deque[int]] = {pipe: deque() for pipe in self._pipes}
        results: dict[int, Any] = {}
        sent = done = 0
        while done < len(items):
            for _ in range(QUEUED):
                for pipe, queue in held.items():
                    if len(queue) < QUEUED and sent < min(len(items), done + AHEAD * len(held)):
                        self._send(pipe, (kind, items[sent]))
                        queue.append(sent)
                        sent += 1
            for ready in wait([pipe for pipe, queue in held.items() if queue]):
                pipe = ready  # type: ignore[assignment]
                results[held[pipe].popleft()] = self._receive(pipe)
            while done in results:
                yield results.pop(done)
                done += 1

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()  # the worker's end of the line: it leaves
        for process in self._processes:
            process.join(timeout=2)
            if process.is_alive():
                process.kill()
        self._drop_board()
        os.close(self._memory)

    def _tell_all(self, kind: str, *arguments: Any) -> None:
        for pipe in self._pipes:
            self._send(pipe, (kind, *arguments))
        for pipe in self._pipes:
            self._receive(pipe)

    def _send(self, pipe: Connection, message: tuple[Any, ...]) -> None:
        try:
            pipe.send(message)
        except OSError:
            raise self._died(pipe) from None

    def _receive(self, pipe: Connection) -> Any:
        try:
            result = pipe.recv()
        except (EOFError, OSError):
            raise self._died(pipe) from None
        if isinstance(result, AdagqError):
            raise result
        if isinstance(result, _Crash):
            raise RuntimeError(f"a worker process failed:\n{result.trace}")
        return result

    def _died(self, pipe: Connection) -> AdagqError:
        process = self._processes[self._pipes.index(pipe)]
        process.join(timeout=1)
        return AdagqError(f"worker process {process.pid} ended (exit code {process.exitcode}); out of memory?")

    def _drop_board(self) -> None:
        if self._board is not None:
            self._board.memory.close()
            self._board = None


@dataclass
class Board:
    """Shared memory that holds one `Copy`, but for its vector, which follows from the others."""

    memory: mmap.mmap
    layout: Layout

    @classmethod
    def over(cls, file: int, layout: Layout) -> "Board":
        """Map the file, which is made large enough."""
        nbytes = max(8 * (layout.elements + layout.buffer_elements), 1)
        os.ftruncate(file, max(nbytes, os.fstat(file).st_size))
        return cls(mmap.mmap(file, nbytes), layout)

    def parts(self) -> list[FloatVector]:
        d, b = self.layout.elements, self.layout.buffer_elements
        floats = np.ndarray(2 * (d + b), np.float32, self.memory)
        return np.split(floats, [d, 2 * d, 2 * d + b])

    def write(self, copy: Copy) -> None:
        held = (copy.previous, copy.aggregate, copy.previous_buffers, copy.buffers)
        for part, array in zip(self.parts(), held, strict=True):
            part[:] = array

    def read(self, version: int) -> Copy:
        previous, aggregate, previous_buffers, buffers = (part.copy() for part in self.parts())
        return Copy(version, previous - aggregate, buffers, aggregate, previous, previous_buffers)


@dataclass(frozen=True, slots=True)
class _Crash:
    trace: str


class _Shared:
    """A file that a process hands to those that it starts: over there it is a descriptor of theirs."""

    def __init__(self, file: int) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        return _received, (DupFd(self.file),)


def _received(handle: Any) -> _Shared:
    return _Shared(handle.detach())


def _leave_with_parent() -> None:
    """End at once when the process that started us has, even in the middle of a long job."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _serve(pipe: Connection, memory: _Shared, residuals: _Shared) -> None:
    """The life of a worker process: one message, one reply, until the line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    worker, board = Worker(_path_of(residuals.file)), None
    while True:
        try:
            kind, *arguments = pipe.recv()
        except (EOFError, OSError):
            return
        reply: Any = None
        try:
            if kind == "attach":
                board = Board.over(memory.file, arguments[0])
            elif kind == "read":
                assert board is not None, "attach first"
                worker.copy = board.read(arguments[0])
            else:
                reply = getattr(worker, kind)(*arguments)
        except AdagqError as error:
            reply = error
        except Exception:
            reply = _Crash(traceback.format_exc())
        try:
            pipe.send(reply)
        except OSError:
            return


def _path_of(file: int) -> Path:
    """Return a path of an open file, which need not have a name."""
    return Path(f"/proc/self/fd/{file}")


@contextlib.contextmanager
def open_pool(workers: int) -> Iterator[Pool]:
    """Start the workers and end them with the block."""
    with tempfile.TemporaryFile(prefix="adagq-") as file:
        residuals = _path_of(file.fileno())
        if workers <= 1:
            yield Alone(residuals)
            return
        pool = Processes(residuals, workers)
        try:
            yield pool
        finally:
            pool.close()
