"""Files that appear whole or not at all: written as a draft beside their place, then renamed.

    with replacing(path) as file:
        file.write(data)

The data are on the disk before the name is, and the name is before the block ends; so neither a kill nor a crash of
the machine leaves half a file, and what was there before stays until the new one is complete. One process at a time
writes a draft, and a draft that a killed process left behind is overwritten by the next.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from adagq.core.errors import OutputError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)
IN_THE_WAY = (errno.ENOTDIR, errno.EEXIST, errno.EISDIR)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write; it becomes `path` when the block ends well, else `path` stays as it was.

    What the operating system refuses is an `OutputError`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _open_draft(draft_of(path))
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                draft_of(path).replace(path)
        except BaseException:
            with suppress(OSError):
                draft_of(path).unlink()
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise refusal(path, error) from None


def draft_of(path: Path) -> Path:
    """Return the place of the draft of `path`."""
    return path.with_name(f".{path.name}.new")


def is_draft(path: Path) -> bool:
    """Whether a killed process may have left `path` as a draft."""
    return path.name.startswith(".") and path.name.endswith(".new")


def sync_folder(folder: Path) -> None:
    """Bring the folder's names to the disk: without it a crash of the machine may undo a rename."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refusal(path: Path, error: OSError) -> OutputError:
    """Return the error for what the operating system does not let us write, with a remedy."""
    remedy = "check the disk"
    if error.errno in FULL:
        remedy = "make room"
    elif error.errno in CLOSED:
        remedy = "choose another place or make it writable"
    elif error.errno in IN_THE_WAY:
        remedy = "choose another place: a file or folder is in the way"
    return OutputError(f"{path}: cannot be written ({error.strerror or error}); {remedy}")


def _open_draft(draft: Path) -> BinaryIO:
    while True:
        file = os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        fcntl.flock(file, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(draft.stat(), os.fstat(file.fileno())):
                file.truncate()
                return file
        file.close()  # whoever held the lock has renamed this very file: begin a draft of our own
