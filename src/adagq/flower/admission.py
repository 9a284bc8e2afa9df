"""Who takes part: nodes are greeted when they appear, and let in when they have said who they are.

Before the first round everyone who is there is waited for, up to a bound. Later a newcomer is greeted while rounds go
on, and takes part from the round after its answer. How the model is flattened is what most of the first nodes say,
where that fits the initial arrays: tensors that they do not train stay as they are. A node whose app fails at the
introduction is greeted MAX_GREETINGS times, each time later; when no connected node can take part, the run ends and
says why.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from logging import ERROR, INFO, WARNING
from typing import Any, Final

from flwr.app import RecordDict
from flwr.supercore import log

from adagq.core.errors import AdagqError
from adagq.core.vectors import Layout
from adagq.flower.layouts import layout_difference, layout_digest, layout_within
from adagq.flower.members import Member, Members
from adagq.flower.timing import said_by
from adagq.flower.transport import Mailbox, Reply
from adagq.server.validation import printable

LOOK_SECONDS: Final = 0.25  # between two looks for nodes
MAX_GREETINGS: Final = 3  # of a node that does not introduce itself
PAUSE_SECONDS: Final = 2.0  # before the second greeting, twice as long before the third
GREETING_SECONDS: Final = 600.0  # until a greeting is void
Greeting = Callable[[], RecordDict]
Met = Callable[[Member, Reply | None, str], None]  # its introduction, or why it is turned away


class Admission:
    """Keeps the members of one run up to date. `met` is called for every introduction."""

    def __init__(self, mailbox: Mailbox, greeting: Greeting, met: Met, wait_seconds: float) -> None:
        self.members = Members()
        self._mailbox, self._greeting, self._met = mailbox, greeting, met
        self._wait_seconds = wait_seconds
        self.layout: Layout | None = None  # how members flatten the model, once that is known
        self._introductions: dict[int, Mapping[str, Any]] = {}  # of nodes whose layout is not judged yet
        self._refused: dict[int, str] = {}  # nodes that cannot take part, and why
        self._failures: Counter[int] = Counter()
        self._next_greeting: dict[int, float] = {}
        self._begun = False

    def agree(self, initial: Layout, least: int) -> Layout:
        """Return how the model is flattened, once `least` nodes have introduced themselves."""
        self.present(least)
        digests = Counter(str(said.get("layout")) for said in self._introductions.values())
        self.layout = initial
        usual = digests.most_common(1)[0][0] if digests else ""
        if usual and usual != layout_digest(initial):
            said = next(said for said in self._introductions.values() if said.get("layout") == usual)
            if (within := layout_within(initial, said)) is not None:
                kept = len(initial.tensors) - len(within.tensors)
                log(
                    INFO,
                    "%d of %d tensors are not trained by the nodes and stay as they are",
                    kept,
                    len(initial.tensors),
                )
                self.layout = within
        return self.layout

    def present(self, least: int) -> dict[int, int]:
        """Return client -> node of those who are there; wait until there are `least` of them."""
        begun = warned = time.perf_counter()
        while True:
            connected = self._mailbox.nodes()
            while (reply := self._mailbox.receive(0.0)) is not None:
                self._admit(reply, connected)
            self._judge_layouts()
            self._greet(connected)
            present = self.members.present(connected)
            now = time.perf_counter()
            expected = self._mailbox.waiting & set(connected)
            settled = self._begun or not expected or now - begun > self._wait_seconds
            if len(present) >= least and settled:
                self._begun = True
                return present
            if connected and len(present) < least and self._refused.keys() >= set(connected):
                reasons = "; ".join(sorted(set(self._refused.values())))
                raise AdagqError(f"none of the {len(connected)} connected nodes can take part: {reasons}")
            if now - warned > self._wait_seconds:
                warned = now
                log(WARNING, "%d of %d nodes are there; waiting", len(present), least)
            if not self._mailbox.waiting:
                time.sleep(LOOK_SECONDS)
            elif (reply := self._mailbox.receive(LOOK_SECONDS)) is not None:
                self._admit(reply, connected)

    def _judge_layouts(self) -> None:
        """Refuse nodes whose model is another one, as soon as it is known which one is ours."""
        if self.layout is None:
            return
        for node, said in self._introductions.items():
            if said.get("layout") != layout_digest(self.layout) and node in self.members.nodes:
                problem = layout_difference(self.layout, said)
                member = self.members.nodes.pop(node)
                self._refuse(node, problem)
                self._met(member, None, problem)
        self._introductions.clear()

    def _greet(self, connected: list[int]) -> None:
        known = self.members.nodes.keys() | self._refused.keys() | self._mailbox.waiting
        for node in set(connected) - known:
            if time.perf_counter() >= self._next_greeting.get(node, 0.0):
                self._mailbox.send(node, self._greeting(), "hello", GREETING_SECONDS)
        self._mailbox.flush()

    def _admit(self, reply: Reply, connected: list[int]) -> None:
        """Let in who has answered."""
        said = said_by(reply)
        if not said or "crashed" in said:
            self._fail(reply.node, str(said.get("crashed", reply.error)))
            return
        member = self.members.admit(reply.node, said, connected)
        if member is None:
            name = printable(str(said.get("name")))
            self._refuse(reply.node, f"another connected node is called {name!r}: give each node a name of its own")
            return
        self._introductions[reply.node] = said
        self._met(member, reply, "")

    def _fail(self, node: int, reason: str) -> None:
        """Note an introduction that failed: with the app's own traceback, once per node."""
        self._failures[node] += 1
        count = self._failures[node]
        self._next_greeting[node] = time.perf_counter() + PAUSE_SECONDS * 2 ** (count - 1)
        if count == 1:
            log(WARNING, "Node %d did not introduce itself:\n%s", node, reason.rstrip())
        if count >= MAX_GREETINGS:
            last = printable(reason.strip().rpartition("\n")[2])
            self._refuse(
                node,
                f"its ClientApp failed {count} times to introduce itself ({last}); "
                "does it call adagq.flower.register, and does its learner() work?",
            )

    def _refuse(self, node: int, reason: str) -> None:
        self._refused[node] = reason
        log(ERROR, "Node %d cannot take part: %s", node, reason)
