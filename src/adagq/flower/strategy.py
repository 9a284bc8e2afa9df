"""Flower strategies that send compressed updates: adagq's loops behind Flower's `Strategy.start`.

Flower's own loop sends whole models and knows one exchange a round; so `start` is overridden and drives the same loops,
controllers and server code as the simulator, over a backend of nodes.
"""

import math
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from logging import INFO
from pathlib import Path
from typing import Any, Final

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.supercore import log

from adagq.core.errors import ConfigError
from adagq.core.vectors import FloatVector
from adagq.experiments.pausing import wait_while_paused
from adagq.experiments.run_directory import RunDirectory
from adagq.flower.arrays import Arrays
from adagq.flower.backend import Nodes
from adagq.flower.conventions import (
    USUAL,
    check_fractions,
    checked_schedule,
    config_for_nodes,
    sampled,
    scheduled,
    warn_of_unused,
    with_epochs,
    without_meaning,
)
from adagq.flower.evaluation import Aggregate, NodeMetrics
from adagq.flower.exchange_log import exchange_lines
from adagq.flower.layouts import tied_in
from adagq.flower.metrics import fill_in, log_round, metric_of, metrics_of
from adagq.flower.own_rounds import OwnRounds
from adagq.flower.status import Status
from adagq.methods.table import Method, method_of
from adagq.rounds import Goal, RoundResult, Schedule, State, drive
from adagq.server.optimizers import optimizer_of

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]
Row = Mapping[str, Any]
CLOCK: Final = {"clock": "measured"}  # in every row: its seconds are no virtual clock's


class Compressed(OwnRounds):
    """Any method of adagq's table: `Compressed("qsgd")`.

    Parameters
    ----------
    method : str or Method (default: "adagq-auto")
        A row of `adagq.methods.table.METHODS`, by name or as it is.
    fraction_train : float (default: 1.0)
        Share of the nodes that train in a round, of those that are there when the run begins.
    min_train_nodes : int (default: 1)
        Nodes that train in a round, at least.
    min_available_nodes : int (default: 2)
        A round begins when so many nodes are there.
    fraction_evaluate : float (default: 1.0)
        Share of the nodes that evaluate each round's model, of those whose learners have `evaluate`; 0: none does.
    min_evaluate_nodes : int (default: 2)
        Nodes that evaluate a round's model, at least, if so many are there.
    train_metrics_aggr_fn, evaluate_metrics_aggr_fn : Callable[[list[RecordDict], str], MetricRecord], optional
        Make one record of the nodes' metrics, as in Flower's FedAvg; by default means weighted by "num-examples".
    seed : int (default: 0)
        All randomness of the run comes from it.
    buffers : Iterable[str], optional
        Names of the arrays that are not trained and travel uncompressed. By default BatchNorm's statistics and whatever
        is not floating point.
    out : Path or str, optional
        A run directory: rows, ledger, incidents, measured exchanges, and a checkpoint after every round.
    resume : bool (default: False)
        Continue the run in `out` from its last closed round.
    config : str, optional
        TOML that is kept as `config.toml` in `out`; by default this strategy's own settings.
    server_optimizer : Mapping[str, Any], optional
        The server's optimizer, such as `{"kind": "nesterov", "momentum": 0.7, "rate": 1.0}`; by default the method's.
    until : Callable[[Sequence[Row]], bool], optional
        Looks at all rows after each round; the run ends when it returns True.
    **schedule
        Fields of `adagq.rounds.schedule.Schedule`: `learning_rate`, `decay`, `participants`, `exchanges` (1, 2 or
        "auto"), `deadline_seconds`, `first_deadline_seconds`, `min_updates`, `aggregate` ("mean", "clipped",
        "trimmed-mean", "median", "krum"), `exclude_after`, `privacy` ({"clip": 1.0, "epsilon": 8.0}), … Where these are
        not given, the key `lr` of `train_config` is the `learning_rate`, which then stays as it is unless `decay` is
        given, `local-epochs` the method's epochs, and `timeout` of `start` the `first_deadline_seconds`. Options of
        Flower's FedAvg that have no meaning here are named in one warning.
    """

    def __init__(
        self,
        method: str | Method = "adagq-auto",
        *,
        fraction_train: float = 1.0,
        min_train_nodes: int = 1,
        min_available_nodes: int = 2,
        fraction_evaluate: float = 1.0,
        min_evaluate_nodes: int = 2,
        train_metrics_aggr_fn: Aggregate | None = None,
        evaluate_metrics_aggr_fn: Aggregate | None = None,
        seed: int = 0,
        buffers: Iterable[str] | None = None,
        out: Path | str | None = None,
        resume: bool = False,
        config: str | None = None,
        server_optimizer: Mapping[str, Any] | None = None,
        until: Callable[[Sequence[Row]], bool] | None = None,
        **schedule: Any,
    ) -> None:
        row = method_of(method) if isinstance(method, str) else method
        self.method = row if server_optimizer is None else replace(row, optimizer=optimizer_of(server_optimizer))
        self.fraction_train = fraction_train
        self.min_train_nodes = min_train_nodes
        self.min_available_nodes = min_available_nodes
        self.fraction_evaluate = fraction_evaluate
        self.min_evaluate_nodes = min_evaluate_nodes
        self.train_metrics_aggr_fn = train_metrics_aggr_fn
        self.evaluate_metrics_aggr_fn = evaluate_metrics_aggr_fn
        self.seed = seed
        self.buffers = None if buffers is None else tuple(buffers)
        self.out = None if out is None else Path(out)
        self.resume = resume
        self.until = until
        self._config = config
        self._unused = without_meaning(schedule)
        self._schedule = checked_schedule({name: value for name, value in schedule.items() if name not in USUAL})
        check_fractions(fraction_train, fraction_evaluate, min_available_nodes)
        if resume and out is None:
            raise ConfigError("resume needs `out`, the run directory to go on with")

    def summary(self) -> None:
        """Log what is about to run."""
        log(INFO, "\t├──> Method: %s (%s)", self.method.name, self.method.description)
        log(INFO, "\t├──> Uplink: %s", self.method.uplink)
        log(INFO, "\t├──> Downlink: %s", self.method.downlink)
        log(INFO, "\t├──> Exchanges a round: %d", self._schedule.get("exchanges", 2))
        log(INFO, "\t└──> Minimum available nodes: %d", self.min_available_nodes)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Run rounds as Flower's own strategies do; the result holds the final arrays and every round's metrics.

        `evaluate_fn` is called with the first model and every round's; its "accuracy" and "loss" go into the rows.
        Without it those of the nodes' evaluations do. `evaluate_config`, and of `train_config` what is neither `lr` nor
        `local-epochs`, goes to learners that take it.
        """
        self.method = with_epochs(self.method, train_config)
        log(INFO, "Starting %s strategy:", type(self).__name__)
        self.summary()
        arrays = Arrays(initial_arrays, self.buffers)
        result = Result(arrays=initial_arrays)

        def evaluate(vector: FloatVector, buffers: FloatVector) -> tuple[float, float]:
            if evaluate_fn is None:
                return math.nan, math.nan
            round = len(result.train_metrics_clientapp) + 1 + begun
            metrics = evaluate_fn(round, arrays.record(vector, buffers))
            if metrics is not None:
                result.evaluate_metrics_serverapp[round] = metrics
            return metric_of(metrics, "accuracy"), metric_of(metrics, "loss")

        status, config = Status(self.out), config_for_nodes(train_config)
        nodes = Nodes(
            *(grid, arrays.layout, arrays.initial, uuid.uuid4().hex, evaluate),
            status=status,
            last_round=num_rounds,
            train_config=config,
        )
        schedule = scheduled(self._schedule, self.seed, self.min_available_nodes, num_rounds, timeout, train_config)
        measured = NodeMetrics(
            0.0 if schedule.privacy.on else self.fraction_evaluate,  # what nodes measure is private
            self.min_evaluate_nodes,
            self.seed,
            float(timeout),
            dict(evaluate_config or {}),
            self.train_metrics_aggr_fn,
            self.evaluate_metrics_aggr_fn,
        )
        text = self._config if self._config is not None else self._settings(schedule, num_rounds)
        directory = nullcontext() if self.out is None else RunDirectory(self.out, text, self.resume, exchanges=True)
        with directory as files:
            arrays.flatten_as(nodes.agree(schedule.min_clients), tied_in(nodes.introductions.values()))
            nodes.adopt(*arrays.initial, arrays.layout)
            present = len(nodes.clients(1, schedule.min_clients))
            schedule = sampled(schedule, self.fraction_train, self.min_train_nodes, present)
            warn_of_unused(self._unused, config, measured.asks, nodes.introductions.values())
            state = files.restore(self.method, self.seed, nodes) if files is not None else None
            past: list[Row] = files.past(self.method, self.seed) if files is not None else []
            begun = len(past)
            if evaluate_fn is not None and not begun and (first := evaluate_fn(0, initial_arrays)) is not None:
                result.evaluate_metrics_serverapp[0] = first
            if state is not None:
                nodes.adopt(state.model.vector, state.model.buffers)
                if schedule.privacy.local:  # nodes may have answered in the round that was not closed
                    state.spent = state.spent.interrupted()
                log(INFO, "Going on after round %d", state.round)

            def observe(one: RoundResult) -> None:
                one.row.update(CLOCK)
                trained = measured.trained(nodes)
                evaluated = measured.evaluated(nodes, one.state)
                if evaluated is not None:
                    one.row["evaluation_bytes"] = nodes.evaluation_bytes
                    result.evaluate_metrics_clientapp[one.row["round"]] = evaluated
                    fill_in(one.row, evaluated)
                if files is not None:
                    files.append(one, nodes, exchange_lines(one.row, nodes.exchanges))
                log_round(one, num_rounds)
                result.train_metrics_clientapp[one.row["round"]] = MetricRecord({**metrics_of(one.row), **trained})

            try:
                state = self._drive(nodes, schedule, num_rounds, state, past, observe) or state
            finally:
                status.remove()
        if state is not None:
            result.arrays = arrays.record(state.model.vector, state.model.buffers)
        return result

    def _drive(
        self,
        nodes: Nodes,
        schedule: Schedule,
        num_rounds: int,
        state: State | None,
        past: Sequence[Row],
        observe: Callable[[RoundResult], None],
    ) -> State | None:
        """Run the rounds that are left and return the state after the last one; None if none are."""
        goal = Goal(target=math.inf, max_rounds=num_rounds)
        rows = list(past)
        if num_rounds < 1 or self._finished(rows, goal):
            return None
        for one in drive(self.method, nodes, schedule, goal, state=state, past=past, observers=[observe]):
            rows.append(one.row)
            state = one.state
            if self._finished(rows, goal):
                break
            wait_while_paused(self.out, partial(log, INFO))
        return state

    def _finished(self, rows: Sequence[Row], goal: Goal) -> bool:
        return bool(rows) and (goal.met(rows) or (self.until is not None and self.until(rows)))

    def _settings(self, schedule: Schedule, num_rounds: int) -> str:
        """Return what decides this run, as TOML."""
        import tomli_w

        training = {"learning_rate": schedule.learning_rate, "decay": schedule.decay, "max_rounds": num_rounds}
        return tomli_w.dumps({"seed": self.seed, "method": self.method.name, "training": training})


class AdaGQ(Compressed):
    """Adaptive quantization for unequal links.

    Implementation based on "Communication-Efficient Federated Learning for Heterogeneous Edge Devices Based on Adaptive
    Gradient Quantization".

    Parameters
    ----------
    method : str (default: "adagq-auto")
        "adagq-auto" fills every node's spare time with real bits and finds the server's step; "adagq-fit" does only the
        first; "adagq" is the paper's algorithm.
    **options
        Those of `Compressed`.
    """

    def __init__(self, method: str = "adagq-auto", **options: Any) -> None:
        if not method.startswith("adagq"):
            known = "adagq, adagq-fit and adagq-auto"
            raise ConfigError(f"method = {method!r}: AdaGQ runs {known}; use Compressed for {method}")
        super().__init__(method, **options)
