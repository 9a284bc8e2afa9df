"""The process that stays: it answers as Flower's own process would, and nothing of it stays behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, RecordDict

from adagq.codecs import Float32
from adagq.core.errors import ConfigError
from adagq.core.messages import Sync, Task, Update
from adagq.flower import handover
from adagq.flower.frames import records_from_parts, records_to_parts
from adagq.flower.handover import ask, reply_of
from adagq.flower.local.processes import Process, began_of
from adagq.flower.named_learner import make_of
from adagq.flower.names import LAST, NODE, RUN
from adagq.flower.node import answer
from adagq.flower.records import read, write
from adagq.flower.registration import register
from adagq.flower.resident import Resident
from adagq.flower.sockets import UntrustedSocketError, connected, socket_folder, socket_path
from adagq.flower.storage import digest_of
from toy import ToySpec

LEARNER = "resident_toy:learner"


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Sockets in a folder of this test's own, with a short path."""
    short = Path(tempfile.mkdtemp(prefix="agq", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    yield short / "adagq"
    wait_until(lambda: not list((short / "adagq").glob("*")), 10)
    shutil.rmtree(short)


@pytest.fixture
def owner() -> Iterator[Process]:
    """What a SuperNode is to its resident: a process that ends some time."""
    child = subprocess.Popen(["sleep", "300"])
    yield Process(child.pid, began_of(child.pid))
    child.kill()
    child.wait()


def wait_until(condition, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def context_of(folder: Path, **node: object) -> Context:
    return Context(1, 7, {"partition-id": 1, "adagq-folder": str(folder), **node}, RecordDict(), {})


def message(last: bool = False) -> RecordDict:
    population = ToySpec().build()
    vector, buffers = population.initial(0)
    run = {"run": "a-run", "digest": digest_of(vector, buffers)} | ({LAST: True} if last else {})
    content = RecordDict({RUN: ConfigRecord(run)})
    payloads = (Float32().encode(vector),)
    write(content, Sync(1, 1, 0, -1, payloads, Float32().encode(buffers) if buffers.size else b""))
    write(content, Task(1, 1, Float32(), 1, 0.1, seed=0))
    return content


def residents(owner: Process) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if handover.RESIDENT.encode() in words and str(owner.pid).encode() in words:
            found.append(int(path.name))
    return found


def test_records_survive_the_frame() -> None:
    arrays = {key: Array(np.arange(n, dtype=np.float32)) for key, n in (("b", 3), ("a", 0), ("c", 5))}
    records = RecordDict({"z": ArrayRecord(arrays), "y": ConfigRecord({"a": [1, 2], "b": b"x", "c": "d"})})
    back = records_from_parts(records_to_parts(records))
    assert back == records
    assert list(back["z"]) == ["b", "a", "c"]


def test_it_answers_what_flowers_process_would_and_stays(sockets: Path, owner: Process, tmp_path: Path) -> None:
    expected = answer(message(), context_of(tmp_path / "one"), make_of(LEARNER))
    context = context_of(tmp_path / "two")
    reply = ask(message(), context, LEARNER, owner)
    assert bytes(read(reply, Update).payload) == bytes(read(expected, Update).payload)
    assert context.state["adagq"]["version"] == 0
    (pid,) = residents(owner)
    ask(message(), context, LEARNER, owner)
    assert residents(owner) == [pid]
    os.kill(owner.pid, signal.SIGKILL)
    wait_until(lambda: not residents(owner), 5)
    assert not list(sockets.glob("*"))


def test_a_killed_resident_is_started_again(sockets: Path, owner: Process, tmp_path: Path) -> None:
    context = context_of(tmp_path)
    ask(message(), context, LEARNER, owner)
    (pid,) = residents(owner)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid not in residents(owner), 5)
    assert read(ask(message(), context, LEARNER, owner), Update).round == 1
    assert residents(owner) != [pid]


def test_a_resident_killed_while_it_trains_is_started_again(sockets: Path, owner: Process, tmp_path: Path) -> None:
    script = (
        "import sys; sys.path[:0] = sys.argv[2].split(':')\n"
        "from test_resident import *\n"
        "owner = Process(int(sys.argv[1]), began_of(int(sys.argv[1])))\n"
        "print(read(ask(message(), context_of(Path(sys.argv[3]), nap=1.5), LEARNER, owner), Update).round)"
    )
    command = [sys.executable, "-c", script, str(owner.pid), ":".join(sys.path), str(tmp_path)]
    flowers = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    wait_until(lambda: (tmp_path / "partition-1/a-run/model.npz").exists(), 60)  # it has received, and trains
    (first,) = residents(owner)
    os.kill(first, signal.SIGKILL)
    assert flowers.wait(60) == 0
    assert flowers.stdout.readline() == "1\n"  # the resident holds the other end of the pipe
    assert first not in residents(owner)


def test_it_leaves_when_nobody_asks(sockets: Path, owner: Process, tmp_path: Path) -> None:
    ask(message(), context_of(tmp_path, **{"adagq-idle-seconds": 0.2}), LEARNER, owner)
    wait_until(lambda: not residents(owner), 10)
    assert not sockets.exists()


def test_a_task_asked_again_is_answered_without_training_again(tmp_path: Path) -> None:
    resident, context = Resident(), context_of(tmp_path)
    first = resident.answer(message(), context, LEARNER, digest=5)
    again = resident.answer(message(), context, LEARNER, digest=5)
    assert read(again, Update) == read(first, Update)
    assert "train-seconds" in first[NODE]
    assert "train-seconds" not in again[NODE]
    other = resident.answer(message(last=True), context, LEARNER, digest=6)
    assert "train-seconds" in other[NODE]


def test_a_socket_of_another_user_is_never_used(sockets: Path, owner: Process, tmp_path: Path) -> None:
    path = socket_path("planted")
    with socket.socket(socket.AF_UNIX) as planted:
        planted.bind(str(path))
        planted.listen()
        assert connected(path) is not None
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        os.chown(path, 12345, 12345)
        with pytest.raises(UntrustedSocketError, match="not a socket of this user"):
            connected(path)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UntrustedSocketError):
        connected(path)
    path.unlink()


@pytest.mark.parametrize("how", ["mode", "link", "owner"])
def test_a_folder_that_others_can_enter_is_not_used_and_the_work_is_done_here(
    how: str, sockets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if how == "mode":
        sockets.mkdir()
        sockets.chmod(0o755)
    elif how == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        sockets.symlink_to(tmp_path / "elsewhere")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        sockets.mkdir(mode=0o700)
        os.chown(sockets, 12345, 12345)
    with pytest.raises(UntrustedSocketError, match="mode 700"):
        socket_folder()
    monkeypatch.setattr(sys, "argv", ["/usr/bin/flwr-clientapp"])
    reply = reply_of(message(), context_of(tmp_path / "node"), LEARNER)
    assert read(reply, Update).round == 1


def test_on_ray_no_process_is_started(sockets: Path, tmp_path: Path) -> None:
    assert read(reply_of(message(), context_of(tmp_path), LEARNER), Update).round == 1
    assert not sockets.exists()


def test_an_exception_of_the_learner_reaches_the_server(sockets: Path, owner: Process, tmp_path: Path) -> None:
    reply = ask(message(), context_of(tmp_path), "resident_toy:lerner", owner)
    assert "did you mean 'learner'" in reply[NODE]["crashed"]


def test_a_name_that_is_none_is_refused_at_once() -> None:
    from flwr.clientapp import ClientApp

    with pytest.raises(ConfigError, match=r"package\.module:function"):
        register(ClientApp(), "no function")


def test_the_apps_module_imports_neither_torch_nor_kernels() -> None:
    script = (
        "import sys; from flwr.clientapp import ClientApp; from adagq.flower import register\n"
        "register(ClientApp(), 'a.b:c'); import adagq.flower.handover\n"
        "print(sorted({'torch', 'numba', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr
