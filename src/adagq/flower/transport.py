"""Carries messages to nodes and replies back, each in its own time.

`Grid.send_and_receive` looks for replies every three seconds, and `Grid.pull_messages` does not return before every
chunk of a reply is there. So every message gets a thread of its own that looks more often; a message that is forgotten
leaves its thread alone, whatever it waits for. Errors are matched with nodes by the message they reply to: Flower names
itself as their sender.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Final

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from adagq.flower.envelope import opened, sealed
from adagq.flower.names import ACTION
from adagq.flower.polling import look_for_chunks_often, when_a_reply_begins

LOOK_SECONDS: Final = 0.1  # between two looks for a reply …
LOOK_SECONDS_PER_NODE: Final = 0.02  # … and more where many nodes are asked at once
DEAF_SECONDS: Final = 1.0  # a waiting process hears no signal that Flower raises in another thread: its SuperLink's end
MAX_TTL: Final = 12 * 3600.0
LOST: Final = (3, 4, 5, 8)  # Flower's error codes: message, reply or node unavailable, the app's process gone


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from one node; `content` is None if nothing did, and `error` says why.

    Seconds are of this process's monotonic clock; `sent_at` is the time of day, to compare with the node's.
    """

    ticket: int
    node: int
    content: RecordDict | None
    error: str
    sent_at: float
    sent_seconds: float
    arrived_seconds: float
    upload_seconds: float  # from the first chunk that was there to the last
    broken_off: bool = False  # nothing came back because it was lost on its way, not because the app failed


class Mailbox:
    """Messages under way over one grid, and their replies in order of arrival.

    `sending` is called, in another thread, with the ticket of a message whose reply has begun to arrive.
    """

    def __init__(self, grid: Grid, sending: Callable[[int], object] = lambda ticket: None) -> None:
        self._grid = grid
        self._sending = sending
        self._replies: queue.Queue[Reply] = queue.Queue()
        self._waiting: dict[int, tuple[int, threading.Event]] = {}  # ticket -> node, whether it was forgotten
        self._outgoing: list[tuple[Message, partial[Reply], threading.Event]] = []
        self._tickets = 0
        look_for_chunks_often("flwr.superlink.grid.http_grid")

    def nodes(self) -> list[int]:
        """Return the nodes that Flower knows to be there."""
        return sorted(self._grid.get_node_ids())

    @property
    def waiting(self) -> set[int]:
        """Nodes that have not replied to something yet."""
        return {node for node, _ in self._waiting.values()}

    def send(self, node: int, content: RecordDict, group: str, seconds: float) -> int:
        """Send a message that is void after `seconds`; return its ticket, which the reply carries.

        It leaves with the others of its round: at `flush`, or when the next reply is waited for.
        """
        self._tickets += 1
        ticket, forgotten = self._tickets, threading.Event()
        self._waiting[ticket] = node, forgotten
        # A node that is late need not begin: past the deadline the message is void.
        ttl = min(max(seconds, 1.0) + 1.0, MAX_TTL)
        message = Message(sealed(content), node, f"train.{ACTION}", ttl=ttl, group_id=group)
        answer = partial(Reply, ticket=ticket, node=node, sent_at=time.time(), sent_seconds=time.perf_counter())
        self._outgoing.append((message, answer, forgotten))
        return ticket

    def flush(self) -> None:
        """Let what was sent leave, all of it at once: Flower stores what messages have in common only once."""
        outgoing, self._outgoing = self._outgoing, []
        if not outgoing:
            return
        try:
            ids = list(self._grid.push_messages([message for message, _, _ in outgoing]))
            problem = "Flower did not take the message"
        except Exception as error:  # whatever the transport raises: nobody is reachable now
            ids, problem = [], str(error)
        for (_, answer, forgotten), message_id in zip_longest(outgoing, ids):
            if message_id is None:
                self._put(answer, None, f"could not be sent: {problem}", time.perf_counter())
            else:
                threading.Thread(target=self._wait_for, args=(message_id, answer, forgotten), daemon=True).start()

    def receive(self, seconds: float) -> Reply | None:
        """Return the next reply; None if there is none within so many seconds, or nobody is left to answer."""
        self.flush()
        until = time.perf_counter() + seconds
        while self._waiting:
            left = max(until - time.perf_counter(), 0.0)
            try:
                reply = self._replies.get(timeout=min(left, DEAF_SECONDS))
            except queue.Empty:
                if left <= DEAF_SECONDS:
                    return None
                continue
            if self._waiting.pop(reply.ticket, None) is not None:
                return reply
        return None

    def forget(self, ticket: int) -> None:
        """Look for this reply no more."""
        if (waiting := self._waiting.pop(ticket, None)) is not None:
            waiting[1].set()

    def _wait_for(self, message_id: str, answer: "partial[Reply]", forgotten: threading.Event) -> None:
        when_a_reply_begins(partial(self._sending, answer.keywords["ticket"]))
        while not forgotten.wait(LOOK_SECONDS + LOOK_SECONDS_PER_NODE * len(self._waiting)):
            looked = time.perf_counter()
            try:
                replies = list(self._grid.pull_messages([message_id]))
            except Exception as error:
                self._put(partial(answer, broken_off=True), None, str(error), time.perf_counter())
                return
            if replies:
                content, problem = _opened(replies[0])
                lost = content is None and replies[0].error.code in LOST
                self._put(partial(answer, broken_off=lost), content, problem, looked)
                return

    def _put(self, answer: "partial[Reply]", content: RecordDict | None, error: str, looked: float) -> None:
        now = time.perf_counter()
        self._replies.put(answer(content=content, error=error, arrived_seconds=now, upload_seconds=now - looked))


def _opened(message: Message) -> tuple[RecordDict | None, str]:
    if message.has_error():
        return None, f"error {message.error.code}: {message.error.reason}"
    return opened(message.content), ""
