"""The models that simulated clients hold: one replica per version, shared by all that hold it.

A replica follows the messages as a client would: what is trained on is what the payloads decode to. A version is
published in the pool when a job first needs it, and dropped when nobody under way began with it.
"""

from collections.abc import Collection

from adagq.client.replica import Replica, receive
from adagq.core.messages import Sync
from adagq.simulation.pool import Pool


class Replicas:
    """By version, and who holds which."""

    def __init__(self, pool: Pool, first: Replica) -> None:
        self._pool = pool
        self._replicas = {first.version: first}
        self._models: dict[int, int] = {}  # version -> number in the pool
        self._held: dict[int, int] = {}  # client -> version

    @property
    def newest(self) -> Replica:
        return self._replicas[max(self._replicas)]

    def held_by(self, client: int) -> Replica:
        """Return the replica of a client."""
        return self._replicas[self._held[client]]

    def hold(self, client: int, replica: Replica) -> None:
        """Give a client this replica, as a checkpoint says."""
        self._held[client] = replica.version
        self._replicas[replica.version] = replica

    def follow(self, sync: Sync, under_way: Collection[int]) -> None:
        """Take a client to the version that its sync leads to; clients under way keep theirs."""
        self._held[sync.client] = sync.version
        if sync.version not in self._replicas:
            before = self._replicas.get(max((v for v in self._replicas if v < sync.version), default=-1))
            self._replicas[sync.version] = receive(before, sync)
            self._forget(under_way)

    def model_of(self, client: int) -> int:
        """Return the pool's number of the model that a client holds."""
        version = self._held[client]
        if version not in self._models:
            self._models[version] = self._pool.publish(self._replicas[version])
        return self._models[version]

    def _forget(self, under_way: Collection[int]) -> None:
        needed = {max(self._replicas), *(self._held[client] for client in under_way)}
        for version in self._replicas.keys() - needed:
            del self._replicas[version]
            if version in self._models:
                self._pool.retire(self._models.pop(version))
