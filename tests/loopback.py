"""Flower's Grid within this process: every message is answered by the node's own code, in a thread of its own.

Nothing is sent anywhere, so tests of faults take seconds; that the messages survive Flower's wire is what the tests on
Ray and on a deployment are for. Content goes through Flower's serialisation all the same.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from adagq.flower.envelope import opened, sealed
from adagq.flower.node import answer
from toy import ToyPopulation

# Messages can only be made inside a run.
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
Spoil = Callable[[RecordDict, RecordDict], RecordDict | Error | None]  # asked, answered -> what is sent; None: nothing


class LoopbackGrid(Grid):
    """`nodes` maps Flower's numbers to partitions. `spoil[node]` may change, withhold or delay its replies."""

    def __init__(self, population: ToyPopulation, folder: Path, nodes: dict[int, int] | None = None) -> None:
        self.population, self.folder = population, folder
        self.nodes = nodes or {1000 + client: client for client in range(population.clients)}
        self.spoil: dict[int, Spoil] = {}
        self.config: dict[int, dict[str, Any]] = {}
        self.asked: list[tuple[int, RecordDict]] = []
        self._replies: dict[str, Message] = {}
        self._numbers = itertools.count(1)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(name) for name in message_ids if name in self._replies]

    def _push(self, message: Message) -> str:
        name = str(next(self._numbers))
        message.metadata.__dict__["_message_id"] = name
        node = message.metadata.dst_node_id
        received = message_from_proto(message_to_proto(message))
        received.content = opened(received.content)
        self.asked.append((node, received.content))
        threading.Thread(target=self._answer, args=(name, node, received), daemon=True).start()
        return name

    def _answer(self, name: str, node: int, message: Message) -> None:
        config = {"partition-id": self.nodes[node], "adagq-folder": str(self.folder), **self.config.get(node, {})}
        context = Context(1, node, config, RecordDict(), {})
        content: RecordDict | Error | None
        content = answer(message.content, context, lambda _: self.population.learner(self.nodes[node]))
        if node in self.spoil:
            content = self.spoil[node](message.content, content)
        if content is not None:
            reply = Message(sealed(content) if isinstance(content, RecordDict) else content, reply_to=message)
            self._replies[name] = message_from_proto(message_to_proto(reply))

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *_: Any, **__: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        raise NotImplementedError


def late(seconds: float) -> Spoil:
    """Return a spoiler that lets replies to tasks come so much later."""

    def wait(asked: RecordDict, answered: RecordDict) -> RecordDict:
        if "adagq.task" in asked:
            time.sleep(seconds)
        return answered

    return wait
