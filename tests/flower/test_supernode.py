"""Shorter waits inside Flower's programs: in this release they are there, in another one nothing breaks."""

import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from adagq.flower import polling, supernode

OURS = ("flwr.supernode.start_client_internal", "flwr.superlink.grid.http_grid")


def module(name: str, source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    (folder / f"{name}.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(str(folder))
    return __import__(name)


def test_sleeps_are_cut_and_the_rest_of_time_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = module("sleeper", "import time\ndef wait():\n    time.sleep(3)\n", tmp_path, monkeypatch)
    assert polling.shorten_sleeps("sleeper", 0.01)
    begun = time.perf_counter()
    sleeper.wait()
    assert time.perf_counter() - begun < 1.0
    assert sleeper.time.monotonic() > 0
    assert time.sleep is not sleeper.time.sleep


def test_what_is_elsewhere_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module("mover", "from time import sleep\ndef pull_objects(names): ...\n", tmp_path, monkeypatch)
    assert not polling.shorten_sleeps("mover", 0.1)
    assert not polling.shorten_sleeps("no_such_module", 0.1)
    assert not polling.look_for_chunks_often("mover")
    assert not polling.replace_call("mover", "subprocess", lambda found: found)


def test_whoever_listens_hears_that_a_reply_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def pull_objects(names, initial_backoff=1, backoff_cap=1, max_tries_per_object=1):\n    return names\n"
    puller = module("puller", text, tmp_path, monkeypatch)
    assert polling.look_for_chunks_often("puller")
    heard: list[str] = []

    def pull(name: str) -> None:
        polling.when_a_reply_begins(lambda: heard.append(name))
        assert puller.pull_objects([name]) == [name]

    for name in ("one", "two"):  # each thread has its own listener
        thread = threading.Thread(target=pull, args=(name,))
        thread.start()
        thread.join()
    assert puller.pull_objects(["three"]) == ["three"]
    assert heard == ["one", "two"]


@pytest.mark.parametrize("name", OURS)
def test_this_release_looks_for_chunks_often(name: str) -> None:
    script = (
        f"from adagq.flower.polling import *; print(look_for_chunks_often({name!r}), look_for_chunks_often({name!r}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_this_release_needs_no_warning() -> None:
    script = "from adagq.flower.supernode import quicken; quicken(0.2)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert "pace" not in done.stdout + done.stderr


def test_another_release_is_named_in_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(supernode, "LOOP", "flwr.moved")
    monkeypatch.setattr(supernode, "log", lambda level, text, *words: said.append(text % words))
    monkeypatch.setenv(supernode.POLL_VARIABLE, "1")
    supernode.quicken(0.2)
    assert "looking for messages, looking for chunks, warm ClientApp processes" in said[0]


FORKED = """
import os, sys
from adagq.flower import superexec
def child():
    os.write(1, " ".join([*sys.argv, str(os.getppid())]).encode() + b"\\n")  # one call: lines stay whole
    sys.exit(0)
superexec._prepared = lambda: child
orders = superexec.nursery()
orders.write(b'["flwr-clientapp", "one"]\\n'); orders.write(b'["flwr-clientapp", "two"]\\n')
orders.close()
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forked on Linux only")
def test_the_nursery_forks_on_order_and_ends_with_its_pipe() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=True)
    lines = sorted(line.split() for line in done.stdout.splitlines())
    assert [line[:2] for line in lines] == [["flwr-clientapp", "one"], ["flwr-clientapp", "two"]]
