"""Carries messages to nodes and replies back, each in its own time.

`Grid.send_and_receive` looks for replies every three seconds, and `Grid.pull_messages` does not return before every
chunk of a reply is there. So every message gets a thread of its own that looks more often; at the deadline the
threads are left alone, whatever they wait for. Errors are matched with nodes by the message they reply to: Flower
names itself as their sender.
"""

import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from adagq.backends.flower.node import ACTION

LOOK_SECONDS: Final = 0.1  # between two looks for a reply …
LOOK_SECONDS_PER_NODE: Final = 0.02  # … and more where many nodes are asked at once
MAX_TTL: Final = 12 * 3600.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from one node; `content` is None if nothing did, and `error` says why.

    Seconds are of this process's monotonic clock; `sent_at` is the time of day, to compare with the node's.
    """

    node: int
    content: RecordDict | None
    error: str
    sent_at: float
    sent_seconds: float
    arrived_seconds: float
    upload_seconds: float  # from the first chunk that was there to the last


class Courier:
    """Messages of one run over one grid."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        _look_for_chunks_often()

    def nodes(self) -> list[int]:
        """Return the nodes that Flower knows to be there."""
        return sorted(self._grid.get_node_ids())

    def carry(self, contents: Mapping[int, RecordDict], group: str, until: float) -> "Round":
        """Send every node its message; replies are looked for until `until` (of `perf_counter`)."""
        return Round(self._grid, contents, group, until)


class Round:
    """The messages of one exchange on their way. Iterate for the replies, in order of arrival."""

    def __init__(self, grid: Grid, contents: Mapping[int, RecordDict], group: str, until: float) -> None:
        self._grid = grid
        self._until = until
        self._replies: queue.Queue[Reply] = queue.Queue()
        self._waiting: set[int] = set()
        self._over = threading.Event()
        self._look_seconds = LOOK_SECONDS + LOOK_SECONDS_PER_NODE * len(contents)
        for node, content in contents.items():
            self.send(node, content, group)

    def send(self, node: int, content: RecordDict, group: str) -> None:
        """Send one more message; a node has at most one under way."""
        left = self._until - time.perf_counter()
        # A node that is late need not begin: past the deadline the message is void.
        ttl = min(max(left, 1.0) + 1.0, MAX_TTL)
        message = Message(content, node, f"train.{ACTION}", ttl=ttl, group_id=group)
        sent_at, sent_seconds = time.time(), time.perf_counter()
        self._waiting.add(node)
        answer = partial(Reply, node=node, sent_at=sent_at, sent_seconds=sent_seconds)
        try:
            (message_id,) = self._grid.push_messages([message])
            if message_id is None:
                raise ValueError("Flower did not take the message")
        except Exception as error:  # whatever the transport raises: this node is not reachable now
            now = time.perf_counter()
            reason = f"could not be sent: {error}"
            self._replies.put(answer(content=None, error=reason, arrived_seconds=now, upload_seconds=0.0))
            return
        threading.Thread(target=self._wait_for, args=(message_id, answer), daemon=True).start()

    def __iter__(self) -> Iterator[Reply]:
        """Yield replies until all have come or the deadline has passed; then nobody looks for more."""
        try:
            yield from self.within(self._until - time.perf_counter())
        finally:
            self.close()

    def close(self) -> None:
        """Look for no more replies."""
        self._over.set()

    def within(self, seconds: float) -> Iterator[Reply]:
        """Yield the replies of the next seconds."""
        until = min(time.perf_counter() + seconds, self._until)
        while self._waiting:
            left = None if until == inf else max(until - time.perf_counter(), 0.0)
            try:
                reply = self._replies.get(timeout=left)
            except queue.Empty:
                return
            self._waiting.discard(reply.node)
            yield reply

    @property
    def missing(self) -> list[int]:
        """Nodes that have not replied."""
        return sorted(self._waiting)

    def _wait_for(self, message_id: str, answer: "partial[Reply]") -> None:
        while not self._over.wait(self._look_seconds):
            looked = time.perf_counter()
            try:
                replies = list(self._grid.pull_messages([message_id]))
            except Exception as error:
                now = time.perf_counter()
                self._replies.put(answer(content=None, error=str(error), arrived_seconds=now, upload_seconds=0.0))
                return
            if replies:
                now = time.perf_counter()
                content, problem = _opened(replies[0])
                self._replies.put(
                    answer(content=content, error=problem, arrived_seconds=now, upload_seconds=now - looked)
                )
                return


def _opened(message: Message) -> tuple[RecordDict | None, str]:
    if message.has_error():
        return None, f"error {message.error.code}: {message.error.reason}"
    return message.content, ""


def _look_for_chunks_often() -> None:
    """Let Flower look for the chunks of a reply four times a second.

    Its own pauses are 1, 2, 4, 8 and then 10 seconds: an upload of 8 seconds is seen after 15. There is no setting for
    it, so the function is replaced where the grid calls it; on a release where it is elsewhere nothing happens.
    """
    with suppress(ImportError, AttributeError):
        from flwr.superlink.grid import http_grid

        grid: Any = http_grid
        if not isinstance(grid.pull_objects, partial):
            grid.pull_objects = partial(
                grid.pull_objects, initial_backoff=0.1, backoff_cap=0.25, max_tries_per_object=None
            )
