"""Evaluation on the nodes, after every round, as Flower's FedAvg does it.

A node is brought to the round's model by the broadcast that it lacks, not by the whole model, and forgets it again: the
next round sends it as if nobody had evaluated. So a run's rounds are the same with evaluation and without: its seconds
are not theirs, and its bytes have a column of their own, `evaluation_bytes`.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from logging import INFO, WARNING
from typing import Any, Final

from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords
from flwr.supercore import log

from adagq.core.seeds import generator
from adagq.flower.backend import Nodes
from adagq.flower.names import METRICS, ROUND, WEIGHT
from adagq.rounds import State

Aggregate = Callable[[list[RecordDict], str], MetricRecord]
LEAST_SECONDS: Final = 60.0  # that nodes are waited for …
FACTOR: Final = 3.0  # … and so many times what the round before took


@dataclass
class NodeMetrics:
    """What nodes measure in a round: of their training, and of the round's model if they evaluate it."""

    fraction: float  # of the nodes that evaluate
    least: int  # nodes
    seed: int
    timeout: float
    config: Mapping[str, Any] = field(default_factory=dict)  # for those that evaluate
    aggregate_train: Aggregate | None = None
    aggregate_evaluate: Aggregate | None = None

    @property
    def asks(self) -> str:
        """Name what asks for evaluation on the nodes; empty if nothing does."""
        asking = {"evaluate_metrics_aggr_fn": self.aggregate_evaluate, "evaluate_config": self.config}
        return ", ".join(name for name, given in asking.items() if given and self.fraction)

    def trained(self, nodes: Nodes) -> MetricRecord:
        """Return the metrics of this round's training as one record."""
        found = aggregated(nodes.train_metrics.values(), self.aggregate_train)
        nodes.train_metrics.clear()
        return found or MetricRecord()

    def evaluated(self, nodes: Nodes, state: State) -> MetricRecord | None:
        """Let nodes evaluate the present model and return their metrics as one record; None if none does."""
        able = sorted(nodes.evaluating - nodes.under_way())
        if not able or self.fraction == 0:
            return None
        count = min(max(int(self.fraction * len(able)), self.least, 1), len(able))
        drawn = generator(self.seed, "evaluate", state.round).choice(len(able), count, replace=False)
        syncs = [state.broadcaster.sync(able[place], state.round, state.model) for place in sorted(drawn)]
        begun = time.perf_counter()
        metrics = nodes.evaluate_on(syncs, ConfigRecord({**self.config, ROUND: state.round}), self.timeout)
        self.timeout = min(self.timeout, max(FACTOR * (time.perf_counter() - begun), LEAST_SECONDS))
        found = aggregated(metrics.values(), self.aggregate_evaluate)
        if found is not None:
            log(INFO, "Evaluated on %d of %d nodes: %s", len(metrics), len(syncs), found)
        return found


def aggregated(metrics: Iterable[MetricRecord], aggregate: Aggregate | None) -> MetricRecord | None:
    """Return the nodes' metrics as one, by default their mean weighted by the examples; None if there are none.

    Records with other keys than most are left out, as Flower's own aggregation cannot take them.
    """
    records = list(metrics)
    if not records:
        return None
    usual = Counter(frozenset(record) for record in records).most_common(1)[0][0]
    alike = [record for record in records if record.keys() == usual]
    if len(alike) < len(records):
        log(WARNING, "Metrics of %d nodes have other names than most and are left out", len(records) - len(alike))
    if usual == {WEIGHT}:
        return None
    return (aggregate or aggregate_metricrecords)([RecordDict({METRICS: record}) for record in alike], WEIGHT)
