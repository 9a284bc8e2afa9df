"""Random numbers by name: `derive(root, "encode", round, client)`.

Every draw in adagq has a path. The same root and path give the same seed on any machine, in any process and
in any order of evaluation, so results do not depend on the number of workers.
"""

import hashlib

import numpy as np


def derive(root: int, *path: str | int) -> int:
    """Return the 64-bit seed that belongs to `path` under `root`.

    >>> derive(1, "encode", 3, 0) == derive(1, "encode", 3, 0)
    True
    >>> derive(1, "encode", 3, 0) == derive(1, "encode", 30)
    False
    """
    text = "/".join([str(int(root)), *(f"{type(part).__name__[0]}{part}" for part in path)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def generator(root: int, *path: str | int) -> np.random.Generator:
    """Return a NumPy generator seeded by `derive(root, *path)`."""
    return np.random.Generator(np.random.PCG64(derive(root, *path)))
