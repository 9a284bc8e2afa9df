"""Messages to the nodes of one run, each followed until it is answered for good.

A node that holds another model than was thought is sent the whole one; a message or a reply that was lost on its way is
asked for again, MOST_LOST times. Both within the same round: `receive` returns answers, not attempts.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from logging import WARNING
from typing import Any, Final

from flwr.app import ConfigRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log

from adagq.codecs import Float32
from adagq.core.messages import Sync, Task
from adagq.core.vectors import FloatVector
from adagq.flower.diary import Diary
from adagq.flower.names import CONFIG, EVALUATE, LAST, ROUND, RUN
from adagq.flower.records import write
from adagq.flower.storage import digest_of
from adagq.flower.timing import Timing, said_by
from adagq.flower.transport import Mailbox, Reply

Model = tuple[FloatVector, FloatVector]
MOST_LOST: Final = 3  # messages of one client and round that are asked again, within the deadline


@dataclass(frozen=True, slots=True)
class Posted:
    """A message under way."""

    client: int
    sync: Sync | None
    task: Task | None
    until: float  # on the clock of the run
    sent_bytes: int
    model: Model  # that the sync leads to: the server's may have moved on when the node answers
    digest: str
    repeated: bool = False  # with the whole model, since the node held another one
    lost: int = 0  # times that the message or its reply was lost on its way

    @property
    def phase(self) -> int:
        return 2 if self.sync is None else 1


class Delivery:
    """Messages under way. `model` is what the present version stands for; `now` reads the run's clock."""

    def __init__(
        self, grid: Grid, run: str, model: Model, timing: Timing, diary: Diary, now: Callable[[], float]
    ) -> None:
        self.run = run
        self.last_round = 0  # whose tasks say so, if it is known
        self.train_config: dict[str, Any] = {}  # for learners that take it
        self.present: Mapping[int, int] = {}  # client -> node
        self._mailbox = Mailbox(grid, self._sending)
        self._timing, self._diary, self._now = timing, diary, now
        self._posted: dict[int, Posted] = {}  # by the ticket of its message
        self.adopt(model)

    def adopt(self, model: Model) -> None:
        """Take this for the model that the present version stands for."""
        self.model = model
        self.digest = digest_of(*model)

    @property
    def clients(self) -> frozenset[int]:
        """Clients that have not answered yet."""
        return frozenset(posted.client for posted in self._posted.values())

    def post(self, client: int, sync: Sync | None, task: Task | None, until: float) -> bool:
        """Send a message; return whether its node is there to get it."""
        return self._send(
            Posted(client, sync, task, until, 0 if sync is None else sync.nbytes, self.model, self.digest)
        )

    def receive(self, until: float) -> tuple[Posted, Reply] | None:
        """Return the next answer; None when `until` has come. A node that left while it was to be asked again is one
        whose reply holds nothing."""
        while True:
            # Deadlines are for the clients: Flower's own part comes on top.
            phase = max((posted.phase for posted in self._posted.values()), default=1)
            reply = self._mailbox.receive(until + self._timing.usual_seconds(phase) - self._now())
            if reply is None:
                return None
            posted = self._posted.pop(reply.ticket)
            name = self._diary.name(posted.client)
            self._timing.measure(self._diary.round, posted.phase, posted.client, name, reply, posted)
            again = self._again(posted, reply)
            if again is None or not self._send(again):
                return posted, reply

    def forget(self, client: int) -> None:
        """Wait no longer for this client."""
        for ticket in [ticket for ticket, posted in self._posted.items() if posted.client == client]:
            self._mailbox.forget(ticket)
            del self._posted[ticket]

    def content(self, digest: str, messages: Iterable[Sync | Task], evaluate: ConfigRecord | None = None) -> RecordDict:
        """Return the records of one node's message: its own, so that nothing leaks from one node to another."""
        run: dict[str, Any] = {"run": self.run, "digest": digest}
        if any(isinstance(message, Task) and message.round == self.last_round for message in messages):
            run[LAST] = True
        content = RecordDict({RUN: ConfigRecord(run)})
        for message in messages:
            write(content, message)
            if isinstance(message, Task) and self.train_config:
                content[CONFIG] = ConfigRecord({**self.train_config, ROUND: message.round})
        if evaluate is not None:
            content[EVALUATE] = evaluate
        return content

    def _again(self, posted: Posted, reply: Reply) -> Posted | None:
        """Return the message that this reply asks for; None if it is an answer."""
        if "stale" in said_by(reply) and posted.sync is not None and not posted.repeated:
            # Another model than the server thought, or none: send the whole one, still in this round.
            full = whole(posted.sync, posted.model)
            return replace(posted, sync=full, sent_bytes=full.nbytes, repeated=True)
        if reply.broken_off and posted.lost < MOST_LOST and self._can_be_asked(posted):
            name = self._diary.name(posted.client)
            log(WARNING, "Round %d: %s is asked again: %s", self._diary.round, name, reply.error)
            return replace(posted, lost=posted.lost + 1)
        return None

    def _send(self, posted: Posted) -> bool:
        node = self.present.get(posted.client)
        if node is None:
            return False
        messages = [message for message in (posted.sync, posted.task) if message is not None]
        seconds = posted.until + self._timing.usual_seconds(posted.phase) - self._now()
        self._diary.note(posted.client, "computing")
        content = self.content(posted.digest, messages)
        ticket = self._mailbox.send(node, content, str(self._diary.round), seconds)
        self._posted[ticket] = posted
        return True

    def _sending(self, ticket: int) -> None:
        """Note, from the thread that pulls it, that a reply has begun to arrive."""
        posted = self._posted.get(ticket)
        if posted is not None:
            self._diary.note(posted.client, "sending")

    def _can_be_asked(self, posted: Posted) -> bool:
        """Whether there is time left for this message and its node is connected."""
        return self._now() < posted.until and self.present.get(posted.client) in self._mailbox.nodes()


def whole(sync: Sync, model: Model) -> Sync:
    """Return the sync that brings the whole model."""
    vector, buffers = model
    payloads = (Float32().encode(vector),)
    return replace(sync, base_version=-1, payloads=payloads, buffers=Float32().encode(buffers) if buffers.size else b"")
