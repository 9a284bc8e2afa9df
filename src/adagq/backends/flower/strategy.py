"""Flower strategies that send compressed updates: `rounds.federate` behind Flower's `Strategy.start`.

Flower's own loop sends whole models and knows one exchange a round; so `start` is overridden and drives the same loop,
controllers and server code as the simulator, over a backend of nodes.
"""

import math
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from logging import INFO
from pathlib import Path
from typing import Any, Final

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from adagq.backends.flower.backend import Nodes
from adagq.backends.flower.courier import Courier
from adagq.backends.flower.exchange_log import append_exchanges, cut_exchanges
from adagq.errors import ConfigError
from adagq.federation import Closed, Schedule, State
from adagq.methods import Method, method_of
from adagq.rounds import federate
from adagq.run_directory import RunDirectory
from adagq.seeds import generator
from adagq.vectors import FloatVector, Layout

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]
Row = Mapping[str, Any]
GIVEN: Final = ("seed", "clients", "joins")  # of the schedule: set here, not by the user's keywords
DEADLINE_FACTOR: Final = 3.0  # polling and process starts alone vary by seconds
CLOCK: Final = {"clock": "measured"}  # in every row: its seconds are no virtual clock's


class Compressed(Strategy):
    """Any method of adagq's table: `Compressed("qsgd")`.

    Parameters
    ----------
    method : str or Method (default: "adagq-fit")
        A row of `adagq.methods.METHODS`, by name or as it is.
    min_available_nodes : int (default: 2)
        A round begins when so many nodes are there.
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
        TOML that is kept as `config.toml` in `out`; by default what this strategy was told.
    until : Callable[[Sequence[Row]], bool], optional
        Looks at all rows after each round; the run ends when it returns True.
    **schedule
        Fields of `adagq.federation.Schedule`: `learning_rate`, `decay`, `participants`, `exchanges` (1 or 2 a round),
        `deadline_seconds`, `first_deadline_seconds`, `min_updates`, … The key `lr` of `train_config` is taken for
        `learning_rate`, and `timeout` of `start` for `first_deadline_seconds`, where these are not given.
    """

    def __init__(
        self,
        method: str | Method = "adagq-fit",
        *,
        min_available_nodes: int = 2,
        seed: int = 0,
        buffers: Iterable[str] | None = None,
        out: Path | str | None = None,
        resume: bool = False,
        config: str | None = None,
        until: Callable[[Sequence[Row]], bool] | None = None,
        **schedule: Any,
    ) -> None:
        self.method = method_of(method) if isinstance(method, str) else method
        self.min_available_nodes = min_available_nodes
        self.seed = seed
        self.buffers = None if buffers is None else tuple(buffers)
        self.out = None if out is None else Path(out)
        self.resume = resume
        self.until = until
        self._config = config
        self._schedule = _checked(schedule)
        if min_available_nodes < 1:
            raise ConfigError(f"min_available_nodes = {min_available_nodes}: must be at least 1")
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

        `evaluate_fn` is called with every round's model; its "accuracy" and "loss" go into the rows. `evaluate_config`
        has no use: models are evaluated at the server, nodes report losses on their held-out samples.
        """
        log(INFO, "Starting %s strategy:", type(self).__name__)
        self.summary()
        arrays = _Arrays(initial_arrays, self.buffers)
        result = Result(arrays=initial_arrays)

        def evaluate(vector: FloatVector, buffers: FloatVector) -> tuple[float, float]:
            if evaluate_fn is None:
                return math.nan, math.nan
            round = len(result.train_metrics_clientapp) + 1 + begun
            metrics = evaluate_fn(round, arrays.record(vector, buffers))
            if metrics is not None:
                result.evaluate_metrics_serverapp[round] = metrics
            return _metric(metrics, "accuracy"), _metric(metrics, "loss")

        nodes = Nodes(Courier(grid), arrays.layout, arrays.initial, uuid.uuid4().hex, evaluate)
        schedule = self._scheduled(nodes, timeout, train_config)
        text = self._config if self._config is not None else self._told(schedule, num_rounds)
        directory = nullcontext() if self.out is None else RunDirectory(self.out, text, self.resume)
        with directory as files:
            state = files.restore(self.method, self.seed, nodes) if files is not None else None
            rows: list[Row] = files.past(self.method, self.seed) if files is not None else []
            begun = len(rows)
            if state is not None:
                nodes.adopt(state.downlink.vector, state.downlink.buffers)
                cut_exchanges(self.out, state.round)
                log(INFO, "Going on after round %d", state.round)
            if not self._finished(rows, num_rounds):
                for closed in self._rounds(nodes, schedule, state):
                    if files is not None:
                        files.append(closed, nodes)
                        append_exchanges(self.out, closed.row, nodes.exchanges)
                    rows.append(closed.row)
                    _log_round(closed.row, num_rounds)
                    result.train_metrics_clientapp[closed.row["round"]] = _metrics(closed.row)
                    state = closed.state
                    if self._finished(rows, num_rounds):
                        break
        if state is not None:
            result.arrays = arrays.record(state.downlink.vector, state.downlink.buffers)
        return result

    def _rounds(self, nodes: Nodes, schedule: Schedule, state: State | None) -> Iterator[Closed]:
        for closed in federate(self.method, nodes, schedule, state):
            yield replace(closed, row=closed.row | CLOCK)

    def _finished(self, rows: Sequence[Row], num_rounds: int) -> bool:
        if not rows:
            return num_rounds < 1
        return rows[-1]["round"] >= num_rounds or (self.until is not None and self.until(rows))

    def _scheduled(self, nodes: Nodes, timeout: float, train_config: ConfigRecord | None) -> "NodeSchedule":
        given = dict(self._schedule)
        rate = None if train_config is None else train_config.get("lr")
        if isinstance(rate, int | float):
            given.setdefault("learning_rate", float(rate))
        given.setdefault("first_deadline_seconds", float(timeout))
        given.setdefault("deadline_factor", DEADLINE_FACTOR)
        least = max(self.min_available_nodes, int(given.get("min_updates", 1)))
        return NodeSchedule(seed=self.seed, clients=0, nodes=nodes, least=least, **given)

    def _told(self, schedule: Schedule, num_rounds: int) -> str:
        """Return what decides this run, as TOML."""
        import tomli_w

        training = {"learning_rate": schedule.learning_rate, "decay": schedule.decay, "max_rounds": num_rounds}
        return tomli_w.dumps({"seed": self.seed, "method": self.method.name, "training": training})

    # Flower's own loop is not used, so its steps are not there to be called.

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        raise NotImplementedError("this strategy runs its rounds in `start`")

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        raise NotImplementedError("this strategy runs its rounds in `start`")

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        raise NotImplementedError("this strategy runs its rounds in `start`")

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        raise NotImplementedError("this strategy runs its rounds in `start`")


class AdaGQ(Compressed):
    """Adaptive quantization for unequal links.

    Implementation based on "Communication-Efficient Federated Learning for Heterogeneous Edge Devices Based on Adaptive
    Gradient Quantization".

    Parameters
    ----------
    method : str (default: "adagq-fit")
        "adagq-fit" fills every node's spare time with real bits; "adagq" is the paper's algorithm.
    **options
        Those of `Compressed`.
    """

    def __init__(self, method: str = "adagq-fit", **options: Any) -> None:
        if not method.startswith("adagq"):
            raise ConfigError(f"method = {method!r}: AdaGQ runs adagq and adagq-fit; use Compressed for {method}")
        super().__init__(method, **options)


@dataclass(frozen=True)
class NodeSchedule(Schedule):
    """A schedule whose clients are the nodes that are there."""

    nodes: Nodes | None = None
    least: int = 1

    def cohort(self, round: int) -> tuple[int, ...]:
        assert self.nodes is not None
        present = self.nodes.present(self.least)
        if not 0 < self.participants < len(present):
            return tuple(present)
        drawn = generator(self.seed, "cohort", round).choice(present, self.participants, replace=False)
        return tuple(sorted(int(client) for client in drawn))

    def founders(self) -> tuple[int, ...]:
        """Nobody: the first model is the server's, and nodes get it as a whole."""
        return ()


class _Arrays:
    """The model as Flower's arrays and as one vector."""

    def __init__(self, initial: ArrayRecord, buffers: Iterable[str] | None) -> None:
        state = {name: array.numpy() for name, array in initial.items()}
        self.layout = Layout.of(state, buffers)
        self.initial = self.layout.pack(state)

    def record(self, vector: FloatVector, buffers: FloatVector) -> ArrayRecord:
        state = self.layout.unpack(vector, buffers)
        return ArrayRecord({name: Array(array) for name, array in state.items()})


def _checked(schedule: Mapping[str, Any]) -> dict[str, Any]:
    known = [field.name for field in fields(Schedule) if field.name not in GIVEN]
    for name in schedule:
        if name not in known:
            near = get_close_matches(name, known, 1, 0.0)
            raise ConfigError(f"unknown option {name!r}: did you mean {near[0]!r}?")
    if schedule.get("exchanges", 2) not in (1, 2):
        raise ConfigError(f"exchanges = {schedule['exchanges']!r}: a round has 1 or 2")
    return dict(schedule)


def _metric(metrics: MetricRecord | None, name: str) -> float:
    """Return the metric of this name, or the first one that has it in its name; NaN if there is none."""
    if metrics is None:
        return math.nan
    key = name if name in metrics else next((key for key in metrics if name[:4] in key.lower()), None)
    value = metrics[key] if key is not None else math.nan
    return float(value) if isinstance(value, int | float) else math.nan


def _metrics(row: Row) -> MetricRecord:
    """Return a round's numbers as Flower's metrics."""
    numbers = {key.replace("_", "-"): value for key, value in row.items() if isinstance(value, int | float)}
    return MetricRecord({key: value for key, value in numbers.items() if key not in ("seed", "round")})


def _log_round(row: Row, num_rounds: int) -> None:
    accuracy = "" if row["accuracy"] is None else f"accuracy {row['accuracy']:.4f}, "
    log(
        INFO,
        "[ROUND %s/%s] %s%d nodes, %.1f s, %d bytes up, %d bytes down",
        *(row["round"], num_rounds, accuracy, row["clients"], row["round_seconds"]),
        *(row["upload_bytes"], row["download_bytes"]),
    )
