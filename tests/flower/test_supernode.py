"""Shorter waits inside Flower's programs: in this release they are there, in another one nothing breaks."""

import os
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from adagq.flower import polling, superexec, supernode

OURS = ("flwr.supernode.start_client_internal", "flwr.superlink.grid.http_grid")


def module(name: str, source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    (folder / f"{name}.py").write_text(source, "utf-8")
    monkeypatch.syspath_prepend(str(folder))
    return __import__(name)


def test_sleeps_are_cut_and_the_rest_of_time_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = module("sleeper", "import time\ndef wait():\n    time.sleep(3)\n", tmp_path, monkeypatch)
    assert polling.replace_sleep("sleeper", lambda seconds: time.sleep(seconds / 300))
    begun = time.perf_counter()
    sleeper.wait()
    assert time.perf_counter() - begun < 1.0
    assert sleeper.time.monotonic() > 0
    assert time.sleep is not sleeper.time.sleep


def test_what_is_elsewhere_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module("mover", "from time import sleep\ndef pull_objects(names): ...\n", tmp_path, monkeypatch)
    assert not polling.replace_sleep("mover", time.sleep)
    assert not polling.replace_sleep("no_such_module", time.sleep)
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


def test_our_pace_is_kept_where_flower_names_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def pull_objects(names, initial_backoff=1, backoff_cap=1, max_tries_per_object=1):\n"
    text += "    return initial_backoff\n"
    puller = module("named_pace", text, tmp_path, monkeypatch)
    assert polling.look_for_chunks_often("named_pace")
    assert puller.pull_objects([], initial_backoff=1, backoff_cap=10) == polling.FIRST_LOOK_SECONDS


def test_a_message_wakes_the_superexec_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import subprocess, time\ndef _pull_and_store_message(run_id): return run_id\ndef f(): time.sleep(3)\n"
    loop = module("waker", text, tmp_path, monkeypatch)
    monkeypatch.setattr(supernode, "LOOP", "waker")
    supernode.quicken(0.2)
    wait = superexec.waiting(loop.subprocess._awake)
    begun = time.perf_counter()
    wait(0.2)
    assert time.perf_counter() - begun >= 0.2
    loop._pull_and_store_message(None)  # nothing was there
    for _ in range(3):
        loop._pull_and_store_message(7)
    begun = time.perf_counter()
    wait(30)
    assert time.perf_counter() - begun < 5
    wait(0.05)  # wakes are not saved up


def test_without_a_supernode_the_superexec_sleeps_as_ever() -> None:
    awake, wake = os.pipe()
    os.close(wake)
    begun = time.perf_counter()
    superexec.waiting(awake)(0.1)
    assert time.perf_counter() - begun >= 0.1
    os.close(awake)


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
