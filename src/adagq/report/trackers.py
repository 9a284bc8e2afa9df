"""Callbacks that send every round to an experiment tracker: one run of the tracker per method and seed.

    adagq.compare(methods=["fedavg", "adagq-fit"], on_round=mlflow_logger(experiment="links"))
    adagq compare --track mlflow                            # the same; MLFLOW_TRACKING_URI says where to

Steps are rounds; every number of a row is a metric under its own name. Virtual time is the metric `seconds`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from adagq.core.errors import ConfigError
from adagq.core.extras import need
from adagq.report.run import number

Row = Mapping[str, Any]
Open = Callable[[str, int], tuple[Callable[[dict[str, float], int], object], Callable[[], object]]]
NAMES = ("method", "seed", "round")


class Logger:
    """A callback for `on_round`; `start(method, seed)` begins a tracker's run and returns how to log and to end it."""

    def __init__(self, start: Open) -> None:
        self._start = start
        self._run: tuple[str, int] | None = None
        self._log: Callable[[dict[str, float], int], object]
        self._end: Callable[[], object]

    def __call__(self, row: Row) -> None:
        run = (str(row["method"]), int(row["seed"]))
        if run != self._run:
            self.close()
            self._log, self._end = self._start(*run)
            self._run = run
        self._log(metrics_of(row), int(row["round"]))

    def close(self) -> None:
        """End the run that is under way; `compare` and `train` call it when they are done."""
        if self._run is not None:
            self._run = None
            self._end()


def metrics_of(row: Row) -> dict[str, float]:
    """Return the numbers of a row that are known.

    >>> metrics_of({"method": "qsgd", "seed": 0, "round": 3, "seconds": 60.0, "nsr": None})
    {'seconds': 60.0}
    """
    known = {key: value for key, value in row.items() if key not in NAMES and isinstance(value, int | float)}
    return {key: value for key, raw in known.items() if (value := number(raw)) is not None}


def mlflow_logger(experiment: str = "adagq", tracking_uri: str | None = None, **tags: str) -> Logger:
    """Return a callback that logs to MLflow: a run per method and seed in `experiment`."""
    need("mlflow", "mlflow")
    from mlflow.entities import Metric
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        client = MlflowClient(tracking_uri)
        found = client.get_experiment_by_name(experiment)
        place = found.experiment_id if found else client.create_experiment(experiment)
    except (MlflowException, ImportError, OSError) as error:
        raise ConfigError(f"mlflow: cannot log to its store (MLFLOW_TRACKING_URI): {error}") from None

    def start(method: str, seed: int) -> Any:
        run = client.create_run(place, tags=tags, run_name=f"{method}, seed {seed}").info.run_id
        client.log_param(run, "method", method)
        client.log_param(run, "seed", seed)

        def log(metrics: dict[str, float], round: int) -> None:
            clock = int(1000 * metrics.get("seconds", 0.0))  # virtual milliseconds: the same run gives the same log
            client.log_batch(run, [Metric(key, value, clock, round) for key, value in metrics.items()])

        return log, lambda: client.set_terminated(run)

    return Logger(start)


def wandb_logger(project: str = "adagq", **options: Any) -> Logger:
    """Return a callback that logs to Weights & Biases; `options` go to `wandb.init`, such as mode="offline"."""
    wandb = need("wandb", "wandb")
    mode = options.get("mode") or wandb.setup().settings.mode
    if mode not in ("offline", "disabled", "dryrun") and not wandb.api.api_key:
        raise ConfigError("wandb: not logged in; run `wandb login`, or set WANDB_MODE=offline")

    def start(method: str, seed: int) -> Any:
        own = {"name": f"{method}, seed {seed}", "group": method, "config": {"method": method, "seed": seed}}
        run = wandb.init(project=project, reinit=True, **(own | options))
        return lambda metrics, round: run.log(metrics, step=round), run.finish

    return Logger(start)


TRACKERS: dict[str, Callable[[], Logger]] = {"mlflow": mlflow_logger, "wandb": wandb_logger}


def tracker(name: str) -> Logger:
    """Return the callback called `name`; where it logs to is said by the tracker's own environment variables."""
    if name not in TRACKERS:
        raise ConfigError(f"--track {name}: must be {' or '.join(TRACKERS)}")
    return TRACKERS[name]()
