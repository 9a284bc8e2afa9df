"""Waiting for replies: long, and yet not deaf."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import signal, sys, threading, time
sys.path[:0] = sys.argv[1:]
from adagq.flower.transport import Mailbox
from flwr.app import ConfigRecord, RecordDict
import loopback

class Silent(loopback.LoopbackGrid):
    def _answer(self, *_): ...

def leave(*_):
    raise SystemExit(42)

signal.signal(signal.SIGINT, leave)
mailbox = Mailbox(Silent(None, None, {7: 0}))
mailbox.send(7, RecordDict({"adagq.run": ConfigRecord({"run": "a-run"})}), "1", 600.0)
# As Flower's watch over its SuperLink does it: from another thread, whose signal wakes nobody else.
threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,)).start()
mailbox.receive(600.0)
"""


def test_a_server_that_waits_ends_with_its_superlink() -> None:
    words = [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[1])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 42, done.stderr
