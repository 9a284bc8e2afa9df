"""Child processes that end when this process does, however it ends.

Leaving the block ends them and all that they started, first by asking. If we are killed, the kernel ends our children
(Linux), and what Flower's programs start of their own watches its parent and leaves with it.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

PR_SET_PDEATHSIG: Final = 1
GRACE_SECONDS: Final = 5.0
RESIDENT: Final = b"adagq.flower.resident"  # in the command of a resident learner: its socket and its owner follow
RESIDENT_NAME: Final = "adagq-resident"  # what the kernel calls every resident, the forked ones too


class Processes:
    """The children of one federation, each with a log file in `folder`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._end_with_us = ending_with_parent()

    def start(self, name: str, command: Sequence[str], wrap: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a child; its output goes to `<name>.log`. `wrap` comes before it, such as `ip netns exec x`."""
        with self.log(name).open("ab") as output:
            child = subprocess.Popen(
                [*wrap, str(Path(sys.executable).parent / command[0]), *command[1:]],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=self._end_with_us,
            )
        self._running[name] = child
        return child

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def kill(self, name: str) -> None:
        """End a child and what it started at once, as a power cut would."""
        child = self._running.pop(name)
        for process in [Process(child.pid), *descendants(child.pid)]:
            process.send(signal.SIGKILL)
        child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        children = list(self._running.values())
        everyone = [process for child in children for process in descendants(child.pid)]
        residents = [process for process in everyone if is_resident(process.pid)]
        for child in reversed(children):
            child.terminate()
        until = time.monotonic() + GRACE_SECONDS
        for child in children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(max(until - time.monotonic(), 0.01))
        for child in children:
            child.kill()
            child.wait()
        for process in everyone:  # they leave by themselves, in their own time
            if process not in residents:
                process.send(signal.SIGKILL)
        _wait_for(residents)  # they have a socket to take away
        for process in residents:
            process.send(signal.SIGKILL)
        _wait_for(everyone)


@dataclass(frozen=True, slots=True)
class Process:
    """A process that is not our child; `began` tells it from a later one with the same number."""

    pid: int
    began: str = ""

    @property
    def alive(self) -> bool:
        return _status(self.pid)[1] == self.began

    def send(self, number: signal.Signals) -> None:
        if not self.began or self.alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)


def this_process() -> Process:
    """Return ourselves."""
    return Process(os.getpid(), began_of(os.getpid()))


def began_of(pid: int) -> str:
    """Return when a process began, in the system's own words; "-" if it is gone."""
    return _status(pid)[1]


def end_with(other: Process) -> None:
    """End this process soon after the other one: Flower's own programs would go on trying to reach their SuperLink."""

    def watch() -> None:
        while other.alive:
            time.sleep(1.0)
        os._exit(1)

    if Path("/proc/self/stat").exists():
        threading.Thread(target=watch, daemon=True).start()


def _wait_for(processes: Sequence[Process]) -> None:
    until = time.monotonic() + GRACE_SECONDS
    while any(process.alive for process in processes) and time.monotonic() < until:
        time.sleep(0.01)


def descendants(pid: int) -> list[Process]:
    """Return all processes below `pid`, and the resident learners that serve them; empty where there is no /proc."""
    found: list[Process] = []
    statuses = {int(path.name): _status(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    parents = [pid]
    while parents:
        parent = parents.pop()
        for child, (its_parent, began) in statuses.items():
            if its_parent == parent:
                found.append(Process(child, began))
                parents.append(child)
    owners = {process.pid for process in found}
    return found + [Process(child, statuses[child][1]) for child in statuses if _owner(child) in owners]


def is_resident(pid: int) -> bool:
    """Whether this process is a resident learner."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip() == RESIDENT_NAME
    return False


def be_resident() -> None:
    """Let this process be known as a resident learner, where there is /proc."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(RESIDENT_NAME, "utf-8")


def _owner(pid: int) -> int | None:
    """Return the process that a resident learner leaves with; None for any other process."""
    with suppress(OSError, ValueError, IndexError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return int(words[words.index(RESIDENT) + 2])
    return None


def _status(pid: int) -> tuple[int, str]:
    """Return a process's parent and when it began; (-1, "-") if it is gone or waits to be buried."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return (-1, "-") if Path("/proc/self").exists() else (-1, _sign_of_life(pid))
    return (-1, "-") if fields[0] == "Z" else (int(fields[1]), fields[19])


def _sign_of_life(pid: int) -> str:
    """Return "" if there is such a process, "-" if not: all that is known without /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "-"
    except PermissionError:
        return ""
    return ""


def ending_with_parent() -> Callable[[], None] | None:
    """Return what a child does before it becomes its program: ask the kernel to be ended with us."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def ask() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # we were gone before it asked
            os._exit(1)

    return ask
