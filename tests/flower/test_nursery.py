"""The process that forks ClientApps and residents: what it forks, and what is left when it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forked on Linux only")
SETUP = """
import os, sys, time
from adagq.flower import nursery
from adagq.flower.local.processes import began_of
def say(*words):
    os.write(1, " ".join(map(str, words)).encode() + b"\\n")  # one call: lines stay whole
def gone(pid):
    until = time.monotonic() + 10
    while began_of(pid) != "-":
        assert time.monotonic() < until, "it is still there"
        time.sleep(0.01)
"""
FORKED = """
def child():
    say(*sys.argv)
    sys.exit(0)
nursery._prepared = lambda: ({"flwr-clientapp": child}, lambda: None)
orders = nursery.open_nursery()
orders.write(b'["flwr-clientapp", "one"]\\n["flwr-clientapp", '); orders.write(b'"two"]\\n')
time.sleep(0.5)
orders.close()
os.wait()
"""
ORPHANS = """
reading, writing = os.pipe()
def child():
    os.write(writing, f"{os.getpid()} {os.getppid()} ".encode())
    time.sleep(60)
nursery._prepared = lambda: ({"flwr-clientapp": child}, lambda: None)
orders = nursery.open_nursery()
orders.write(b'["flwr-clientapp"]\\n')
pid, parent = os.read(reading, 100).split()
orders.close()
os.wait()
gone(int(pid))
say("gone")
"""
BUSY = """
reading, writing = os.pipe()
def compile():
    os.write(writing, str(os.getpid()).encode())
    time.sleep(60)
nursery._prepared = lambda: ({}, compile)
superexec = os.fork()
if superexec == 0:
    orders = nursery.open_nursery()
    time.sleep(60)
pid = int(os.read(reading, 100))
os.kill(superexec, 9)
os.wait()
gone(pid)
say("gone")
"""
RESIDENT = """
reading, writing = os.pipe()
def client_app():
    assert nursery.request_resident(["a-path", "7"])
    os.write(writing, f"app {os.getpid()} {os.getppid()} {os.getsid(0)}\\n".encode())
def resident():
    os.write(writing, f"{' '.join(sys.argv)} {os.getpid()} {os.getppid()} {os.getsid(0)}\\n".encode())
    assert not nursery.request_resident([])
    time.sleep(0.5)
    os.write(writing, b"still here\\n")
nursery._prepared = lambda: ({"flwr-clientapp": client_app, "adagq-resident": resident}, lambda: None)
orders = nursery.open_nursery()
orders.write(b'["flwr-clientapp"]\\n')
lines = os.fdopen(reading)
app, one = sorted([lines.readline().split(), lines.readline().split()], key=len)
assert one[:3] == ["adagq-resident", "a-path", "7"], one
assert one[4] == app[2], "its parent is the nursery"
assert one[5] == one[3] != app[3], "it has a session of its own"
gone(int(app[1]))
orders.close()
os.wait()
assert lines.readline() == "still here\\n", "it leaves by itself, not with the nursery"
say("done")
"""


def run(script: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", SETUP + script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_it_forks_on_order_and_ends_with_its_pipe() -> None:
    assert run(FORKED) == ["flwr-clientapp one", "flwr-clientapp two"]


def test_client_apps_end_with_it_whatever_they_wait_for() -> None:
    assert run(ORPHANS) == ["gone"]


def test_it_ends_with_its_superexec_also_while_it_compiles() -> None:
    assert run(BUSY) == ["gone"]


def test_a_client_app_asks_for_its_resident_and_leaves_it_behind() -> None:
    assert run(RESIDENT) == ["done"]


def test_elsewhere_nobody_is_asked(tmp_path: Path) -> None:
    assert run('say(nursery.request_resident(["a-path"]))') == ["False"]
