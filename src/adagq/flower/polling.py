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
LOOK_SECONDS: Final = 0.15  # between two looks for chunks
OFTEN: Final = {
    "initial_backoff": FIRST_LOOK_SECONDS,
    "backoff_cap": LOOK_SECONDS,
    "max_tries_per_object": None,
}
_listener = threading.local()


def look_for_chunks_often(module: str) -> bool:
    """Let `module` look for the chunks of a message often; return whether that was possible."""
    found = _module(module)
    pull: Any = getattr(found, "pull_objects", None)
    if isinstance(pull, partial):
        return True
    if found is None or pull is None or "initial_backoff" not in inspect.signature(pull).parameters:
        return False
    vars(found)["pull_objects"] = partial(_often, pull)
    return True


def when_a_reply_begins(call: Callable[[], object]) -> None:
    """Let `call` be called whenever this thread begins to pull the chunks of a reply: its node is sending."""
    _listener.call = call


def _often(pull: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Pull at our pace, whatever pace Flower asks for, and say that it begins."""
    getattr(_listener, "call", lambda: None)()
    return pull(*arguments, **options | OFTEN)


def replace_sleep(module: str, sleep: Callable[[float], object]) -> bool:
    """Let `module` call this in place of `time.sleep`; return whether it sleeps at all."""
    found = _module(module)
    if found is None or vars(found).get("time") is not time or "time.sleep(" not in inspect.getsource(found):
        return False
    vars(found)["time"] = _OtherSleep(sleep)
    return True


class _OtherSleep:
    """The module `time` with another `sleep`."""

    def __init__(self, sleep: Callable[[float], object]) -> None:
        self.sleep = sleep

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
