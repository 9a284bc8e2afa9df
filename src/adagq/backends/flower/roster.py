"""Nodes as the loop knows them: small integers that mean the same node all through a run.

Flower numbers nodes at random, and gives a node without a key another number after every restart. A node tells its
name when it is first met; the client number belongs to the name: its partition where that is free, else the next one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Member:
    """A node that has introduced itself."""

    client: int
    name: str


@dataclass
class Roster:
    """Who takes part. `clients` outlives a restart of the server, `nodes` is about who is connected now."""

    clients: dict[str, int] = field(default_factory=dict)  # name -> client
    nodes: dict[int, Member] = field(default_factory=dict)  # Flower's number -> member

    def admit(self, node: int, told: Mapping[str, Any]) -> Member:
        """Note a node's introduction and return who it is.

        >>> roster = Roster()
        >>> [roster.admit(node, {"name": name}).client for node, name in ((77, "a"), (5, "b"), (9, "a"))]
        [0, 1, 0]
        """
        name = str(told.get("name", f"node-{node}"))
        if name not in self.clients:
            self.clients[name] = self._free(told.get("partition-id"))
        for other, member in list(self.nodes.items()):
            if member.name == name:
                del self.nodes[other]  # the same node under an earlier number
        self.nodes[node] = Member(self.clients[name], name)
        return self.nodes[node]

    def present(self, connected: Iterable[int]) -> dict[int, int]:
        """Return client -> node of the members that are connected."""
        here = set(connected)
        return {member.client: node for node, member in sorted(self.nodes.items()) if node in here}

    def name(self, client: int) -> str:
        return next((name for name, number in self.clients.items() if number == client), f"client {client}")

    def _free(self, wanted: Any) -> int:
        taken = set(self.clients.values())
        if isinstance(wanted, int) and 0 <= wanted < 1_000_000 and wanted not in taken:
            return wanted
        return next(number for number in range(len(taken) + 1) if number not in taken)
