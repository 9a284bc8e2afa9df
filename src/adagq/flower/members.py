"""Nodes as the loops know them: small integers that mean the same node all through a run.

Flower numbers nodes at random, and gives a node without a key another number after every restart. A node says its name
when it is first met; the client number belongs to the name: its partition where that is free, else the next one. A name
belongs to the node that holds it for as long as that is connected: another node that claims it is refused.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MOST_PARTITIONS: Final = 1000  # client numbers are places in columns: a node may not ask for a far one
LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class Member:
    """A node that has introduced itself."""

    client: int
    name: str


@dataclass
class Members:
    """Who takes part. `clients` outlives a restart of the server, `nodes` is about who is connected now."""

    clients: dict[str, int] = field(default_factory=dict)  # name -> client
    nodes: dict[int, Member] = field(default_factory=dict)  # Flower's number -> member

    def admit(self, node: int, introduction: Mapping[str, Any], connected: Collection[int] = ()) -> Member | None:
        """Note a node's introduction and return who it is; None if a connected node holds its name.

        >>> members = Members()
        >>> [members.admit(node, {"name": name}).client for node, name in ((77, "a"), (5, "b"), (9, "a"))]
        [0, 1, 0]
        >>> members.admit(4711, {"name": "b"}, connected=[5, 4711]) is None
        True
        """
        name = clean_name(introduction.get("name", f"node-{node}"))
        holders = [other for other, member in self.nodes.items() if member.name == name and other != node]
        if any(other in connected for other in holders):
            return None
        if name not in self.clients:
            self.clients[name] = self._free(introduction.get("partition-id"))
        for other in holders:
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
        if type(wanted) is int and 0 <= wanted < MOST_PARTITIONS and wanted not in taken:
            return wanted
        return next(number for number in range(len(taken) + 1) if number not in taken)


def clean_name(name: object) -> str:
    """Return a name that may stand in a log, a table and a file: printable, on one line, not too long.

    >>> clean_name("phone\\n\\x1b[31m" + 200 * "x")[:12]
    'phone??[31mx'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in str(name))[:LONGEST_NAME] or "?"
