"""Metrics that nodes send: with their updates, and in answer to a message that asks for an evaluation."""

import time
from collections.abc import Callable, Mapping
from logging import WARNING
from typing import Final

from flwr.app import MetricRecord, RecordDict
from flwr.supercore import log

from adagq.core.messages import Sync
from adagq.flower.names import METRICS, WEIGHT
from adagq.flower.timing import said_by
from adagq.flower.transport import Mailbox
from adagq.server.validation import printable

GROUP: Final = "evaluate"  # Flower's name for messages that belong together


def metrics_in(content: RecordDict, examples: int) -> MetricRecord:
    """Return the metrics of a reply, of the weight that its update has."""
    metrics = content.get(METRICS)
    return MetricRecord({**(metrics if isinstance(metrics, MetricRecord) else {}), WEIGHT: max(examples, 1)})


def collect_metrics(
    mailbox: Mailbox,
    asked: Mapping[int, Sync],
    content: Callable[[Sync], RecordDict],
    full: Callable[[Sync], Sync],
    seconds: float,
) -> tuple[dict[int, MetricRecord], int]:
    """Ask nodes for evaluations; return client -> metrics of those who answer in time, and the bytes that were sent.

    A node that holds another model than was thought gets the whole one.
    """
    until = time.perf_counter() + seconds
    sent_bytes = sum(sync.nbytes for sync in asked.values())
    tickets = {mailbox.send(node, content(sync), GROUP, seconds): sync for node, sync in asked.items()}
    found: dict[int, MetricRecord] = {}
    while (reply := mailbox.receive(until - time.perf_counter())) is not None:
        sync, said = tickets.pop(reply.ticket), said_by(reply)
        if "stale" in said and not sync.full:
            left, sync = until - time.perf_counter(), full(sync)
            tickets[mailbox.send(reply.node, content(sync), GROUP, left)] = sync
            sent_bytes += sync.nbytes
            continue
        metrics = None if reply.content is None else reply.content.get(METRICS)
        weight = metrics.get(WEIGHT) if isinstance(metrics, MetricRecord) else None
        if isinstance(metrics, MetricRecord) and isinstance(weight, int | float) and weight > 0:
            found[sync.client] = metrics
            continue
        reason = reply.error or str(said.get("crashed", "its reply holds no metrics"))
        log(WARNING, "Client %d did not evaluate: %s", sync.client, printable(reason.strip().rpartition("\n")[2]))
    for ticket, sync in tickets.items():
        mailbox.forget(ticket)
        log(WARNING, "Client %d did not evaluate within %.0f s", sync.client, seconds)
    return found, sent_bytes
