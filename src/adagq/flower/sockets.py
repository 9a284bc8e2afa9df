"""Unix sockets that only one user's processes share.

A socket lives in a folder of mode 0700 that belongs to us; a folder or socket of anyone else, or a link in its place,
is never used. Where the system says who is at the other end (Linux), that is checked as well, on both sides.
"""

import hashlib
import os
import socket
import stat
import struct
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from adagq.core.errors import AdagqError

LONGEST_PATH: Final = 100  # bytes; 108 on Linux, 104 on macOS
SUFFIX: Final = ".sock"


class UntrustedSocketError(AdagqError):
    """A folder, a socket or a peer that is not ours."""


def socket_folder() -> Path:
    """Return the folder of this user's sockets, made if need be; `UntrustedSocketError` if it is not ours alone."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "adagq" if runtime else Path(tempfile.gettempdir()) / f"adagq-{os.getuid()}"
    if len(os.fsencode(folder)) > LONGEST_PATH - 24:
        folder = Path("/tmp") / f"adagq-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise UntrustedSocketError(f"{folder} is not a folder of this user's alone (mode 700)")
    return folder


def socket_path(*names: object) -> Path:
    """Return the path of the socket that these names stand for: short, whatever they are."""
    digest = hashlib.sha256("\0".join(map(str, names)).encode()).hexdigest()
    return socket_folder() / f"{digest[:16]}{SUFFIX}"


def connected(path: Path) -> socket.socket | None:
    """Return a connection to the socket; None if nobody listens there."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.getuid():
        raise UntrustedSocketError(f"{path} is not a socket of this user's")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(os.fspath(path))
        check_peer(connection)
    except (ConnectionRefusedError, FileNotFoundError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def listening(path: Path) -> socket.socket:
    """Return a socket that takes connections at `path`, and delete those that nobody listens at any more."""
    for other in path.parent.glob(f"*{SUFFIX}"):
        with suppress(OSError, UntrustedSocketError):
            if (connection := connected(other)) is None:
                other.unlink()
            else:
                connection.close()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(os.fspath(path))
    path.chmod(0o600)
    server.listen(4)
    return server


def forget(path: Path) -> None:
    """Delete a socket, and its folder if it was the last one."""
    path.unlink(missing_ok=True)
    with suppress(OSError):
        path.parent.rmdir()


def check_peer(connection: socket.socket) -> None:
    """Refuse a connection to another user's process, where the system knows."""
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        if user != os.getuid():
            raise UntrustedSocketError(f"the process at the other end belongs to user {user}")
