"""What happens to nodes in a round: said in the log, in status.json, and to the loops as incidents."""

from collections.abc import Callable
from logging import WARNING

from flwr.supercore import log

from adagq.core.messages import Incident, IncidentKind
from adagq.flower.status import Status
from adagq.server.validation import printable, printable_lines


class Diary:
    """Events of one run; `name` tells what a client is called."""

    def __init__(self, name: Callable[[int], str]) -> None:
        self.name = name
        self.round = 0  # that is under way
        self.status = Status(None)
        self._traced: set[int] = set()  # clients whose traceback is in the log

    def note(self, client: int, state: str) -> None:
        """Note what a node does from now on."""
        self.status.note(self.round, client, self.name(client), state)

    def incident(self, client: int, kind: IncidentKind, reason: str) -> Incident:
        """Note what went wrong with a node and return it; the app's own traceback is logged once per client."""
        last = printable(reason.strip().rpartition("\n")[2])
        shown = printable_lines(reason.rstrip()) if kind == "failed" and client not in self._traced else last
        self._traced |= {client} if kind == "failed" else set()
        log(WARNING, "Round %d: %s (client %d) %s: %s", self.round, self.name(client), client, kind, shown)
        self.note(client, kind)
        return Incident(client, self.round, kind, last)
