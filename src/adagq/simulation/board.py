"""Memory that worker processes share: a file without a name, with a place for every model."""

import mmap
import os
import tempfile
from dataclasses import dataclass, field

import numpy as np

from adagq.client.replica import Replica
from adagq.core.vectors import FloatVector, Layout


def nameless_file() -> int:
    """Return a file without a name: in memory where the system can do that, else in the temporary folder."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("adagq")
    with tempfile.TemporaryFile(prefix="adagq-") as file:
        return os.dup(file.fileno())


@dataclass
class Board:
    """Shared memory with a place for every model; a model's vector is left out: it follows from the other parts."""

    file: int
    layout: Layout
    _maps: dict[int, mmap.mmap] = field(default_factory=dict)

    def write(self, slot: int, replica: Replica) -> None:
        held = (replica.previous, replica.aggregate, replica.previous_buffers, replica.buffers)
        for part, array in zip(self._parts(slot), held, strict=True):
            part[:] = array

    def read(self, slot: int, version: int) -> Replica:
        previous, aggregate, previous_buffers, buffers = (part.copy() for part in self._parts(slot))
        return Replica(version, previous - aggregate, buffers, aggregate, previous, previous_buffers)

    def _parts(self, slot: int) -> list[FloatVector]:
        d, b = self.layout.elements, self.layout.buffer_elements
        nbytes = max(8 * (d + b), 1)
        stride = -(-nbytes // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        if slot not in self._maps:
            if os.fstat(self.file).st_size < (slot + 1) * stride:
                os.ftruncate(self.file, (slot + 1) * stride)
            self._maps[slot] = mmap.mmap(self.file, nbytes, offset=slot * stride)
        floats = np.ndarray(2 * (d + b), np.float32, self._maps[slot])
        return np.split(floats, [d, 2 * d, 2 * d + b])
