"""A client's replica of the model, and how a broadcast moves it on."""

from dataclasses import dataclass

import numpy as np

from adagq.codecs import decode
from adagq.core.errors import PayloadError
from adagq.core.messages import Sync
from adagq.core.vectors import FloatVector


@dataclass(frozen=True, slots=True)
class Replica:
    """One version of the model, and how it follows from the version before."""

    version: int
    vector: FloatVector
    buffers: FloatVector
    aggregate: FloatVector  # vector = previous - aggregate
    previous: FloatVector
    previous_buffers: FloatVector

    @classmethod
    def first(cls, version: int, vector: FloatVector, buffers: FloatVector) -> "Replica":
        """Return a model that came whole: by seed at the start, or as a full download."""
        return cls(version, vector, buffers, np.zeros_like(vector), vector, buffers)


def receive(replica: Replica | None, sync: Sync) -> Replica:
    """Return the model that `sync` leads to; aggregates that the replica has already are passed over."""
    if replica is not None and replica.version == sync.version:
        return replica
    buffers = decode(sync.buffers) if sync.buffers else np.zeros(0, np.float32)
    if sync.full:
        return Replica.first(sync.version, decode(sync.payloads[0]), buffers)
    if replica is None or not sync.base_version <= replica.version < sync.version:
        held = "none" if replica is None else replica.version
        raise PayloadError(f"sync leads from model version {sync.base_version} to {sync.version}; here is {held}")
    vector = previous = replica.vector
    aggregate = replica.aggregate
    for payload in sync.payloads[replica.version - sync.version :]:
        previous, aggregate = vector, decode(payload)
        vector = previous - aggregate
    return Replica(sync.version, vector, buffers, aggregate, previous, replica.buffers)
