"""Who takes part: nodes are greeted when they appear, and let in when they have said who they are.

Before the first round everyone who is there is waited for, up to a bound. Later a newcomer is greeted while rounds go
on, and takes part from the round after its answer.
"""

import time
from collections.abc import Callable
from logging import WARNING
from math import inf
from typing import Final

from flwr.app import RecordDict
from flwr.supercore import log

from adagq.backends.flower.courier import Courier, Reply
from adagq.backends.flower.node import layout_digest
from adagq.backends.flower.roster import Member, Roster
from adagq.backends.flower.timing import told_by
from adagq.vectors import Layout

LOOK_SECONDS: Final = 0.25  # between two looks for nodes
Greeting = Callable[[], RecordDict]
Met = Callable[[Member, Reply, str], None]  # the last is why it is turned away, empty if it is not


class Lobby:
    """Keeps the roster of one run up to date. `met` is told of every introduction."""

    def __init__(self, courier: Courier, layout: Layout, greeting: Greeting, met: Met, patience_seconds: float) -> None:
        self.roster = Roster()
        self._courier, self._layout, self._greeting, self._met = courier, layout, greeting, met
        self._patience_seconds = patience_seconds
        self._refused: set[int] = set()  # nodes that can never take part
        self._greetings = courier.carry({}, "hello", inf)  # one at a time for a node, as long as the run lasts
        self._begun = False

    def present(self, least: int) -> dict[int, int]:
        """Return client -> node of those who are there; wait until there are `least` of them."""
        begun = told = time.perf_counter()
        while True:
            connected = self._courier.nodes()
            self._admit()
            self._greet([node for node in connected if node not in self.roster.nodes and node not in self._refused])
            present = self.roster.present(connected)
            now = time.perf_counter()
            expected = set(self._greetings.missing) & set(connected)
            settled = self._begun or not expected or now - begun > self._patience_seconds
            if len(present) >= least and settled:
                self._begun = True
                return present
            if now - told > self._patience_seconds:
                told = now
                log(WARNING, "%d of %d nodes are there; waiting", len(present), least)
            time.sleep(LOOK_SECONDS)

    def _greet(self, strangers: list[int]) -> None:
        for node in set(strangers) - set(self._greetings.missing):
            self._greetings.send(node, self._greeting(), "hello")

    def _admit(self) -> None:
        """Let in who has answered."""
        for reply in self._greetings.within(0.0):
            told = told_by(reply)
            if not told:
                log(WARNING, "Node %d did not introduce itself: %s", reply.node, reply.error)
                continue
            member = self.roster.admit(reply.node, told)
            problem = ""
            if told.get("layout") != layout_digest(self._layout):
                self._refused.add(reply.node)
                del self.roster.nodes[reply.node]
                problem = (
                    f"its model has {told.get('elements')} parameters in another layout than the "
                    f"{self._layout.elements} of the initial arrays"
                )
            self._met(member, reply, problem)
