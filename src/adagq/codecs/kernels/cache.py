"""Where compiled kernels are kept, and a word to the user when they are being compiled.

Numba compiles a kernel again when its own file has changed, not when a kernel that it calls in another file has. So the
folder of the cache carries a digest of all kernel files: a changed kernel never runs from an old cache. Where no folder
can be written, kernels are compiled in every process.
"""

import hashlib
import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numba
from numba.core import event

PACKAGE: Final = __name__.rpartition(".")[0]
SOURCES: Final = Path(__file__).parent
PREFIX: Final = "kernels-"
MARK: Final = "compiling"  # a file that is as old as the last word of it
SILENT_SECONDS: Final = 120.0  # other processes of one command compile too: one word is enough

_config: Any = numba.config
logger = logging.getLogger("adagq")


def source_digest(sources: Path = SOURCES) -> str:
    """Return a digest of all kernel files."""
    digest = hashlib.sha256()
    for path in sorted(sources.glob("*.py")):
        source = path.read_bytes()
        digest.update(f"{path.name} {len(source)} ".encode() + source)
    return digest.hexdigest()[:16]


def _folder() -> Path | None:
    """Return the folder for this version of the kernels, in the first place that can be written; None if none can."""
    chosen = _config.CACHE_DIR  # the user's own: NUMBA_CACHE_DIR
    places = [Path(chosen)] if chosen else [SOURCES / "__pycache__", Path("~/.cache/adagq")]
    for place in places:
        try:
            folder = place.expanduser() / f"{PREFIX}{source_digest()}"
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except (OSError, RuntimeError):  # RuntimeError: there is no home
            continue
        return folder
    return None


FOLDER: Final = _folder()


@contextmanager
def cached_here() -> Iterator[bool]:
    """Let Numba keep what is decorated inside in FOLDER; yields whether there is one."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(FOLDER or "")
    try:
        yield FOLDER is not None
    finally:
        _config.CACHE_DIR = before


class _Announcer(event.Listener):
    """Logs the first compilation of a kernel in this process: half a minute of silence would look like a hang."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        if self._said or not event.data["dispatcher"].py_func.__module__.startswith(PACKAGE):
            return
        self._said = True
        if FOLDER is None:
            logger.warning("compiling the codecs: about 30 s in every process, as no cache folder can be written")
        elif _first_to_say(FOLDER / MARK):
            logger.warning("compiling the codecs: about 30 s, once; kept in %s", FOLDER)

    def on_end(self, event: Any) -> None:
        pass


def _first_to_say(mark: Path) -> bool:
    """Return whether no other process has just said that it compiles, and note that this one does."""
    try:
        if time.time() - mark.stat().st_mtime < SILENT_SECONDS:
            return False
    except OSError:  # nobody ever has
        pass
    with suppress(OSError):  # a full disk is no reason to stop
        mark.touch()
    return True


event.register("numba:compile", _Announcer())
