"""Shorter waits inside Flower's own programs, where it has no setting for them.

Flower 1.41 looks for work every 3 s on a SuperNode, for a finished reply every 0.5 s, and for the missing chunks of a
message after 1, 2, 4, 8 and then 10 s. The functions here replace what a module of Flower's calls, in this process
only. On a release where that is elsewhere they change nothing and return False.
"""

import inspect
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Final

FIRST_LOOK_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 0.25  # between two looks for chunks
_listener = threading.local()


def look_for_chunks_often(module: str) -> bool:
    """Let `module` look for the chunks of a message four times a second; return whether that was possible."""
    found = _module(module)
    pull: Any = getattr(found, "pull_objects", None)
    if isinstance(pull, partial):
        return True
    if found is None or pull is None or "initial_backoff" not in inspect.signature(pull).parameters:
        return False
    often = partial(
        _announced, pull, initial_backoff=FIRST_LOOK_SECONDS, backoff_cap=LOOK_SECONDS, max_tries_per_object=None
    )
    vars(found)["pull_objects"] = often
    return True


def when_a_reply_begins(call: Callable[[], object]) -> None:
    """Let `call` be called whenever this thread begins to pull the chunks of a reply: its node is sending."""
    _listener.call = call


def _announced(pull: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    getattr(_listener, "call", lambda: None)()
    return pull(*arguments, **options)


def shorten_sleeps(module: str, longest_seconds: float) -> bool:
    """Let no `time.sleep` of `module` be longer than this; return whether it has any that would be."""
    found = _module(module)
    if found is None or vars(found).get("time") is not time or "time.sleep(" not in inspect.getsource(found):
        return False
    vars(found)["time"] = ShortSleeps(longest_seconds)
    return True


class ShortSleeps:
    """The module `time` with sleeps of at most so many seconds."""

    def __init__(self, longest_seconds: float) -> None:
        self._longest_seconds = longest_seconds

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, self._longest_seconds))

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def replace_call(module: str, name: str, wrap: Callable[[Any], Any]) -> bool:
    """Replace a function or module that `module` calls by `wrap` of it; return whether it is there."""
    found = _module(module)
    if found is None or name not in vars(found):
        return False
    vars(found)[name] = wrap(vars(found)[name])
    return True


def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None
