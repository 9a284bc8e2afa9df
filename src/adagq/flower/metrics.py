"""A round's numbers: from Flower's metrics, as Flower's metrics, and as one line in the log."""

import math
from collections import Counter
from collections.abc import Mapping
from logging import INFO
from typing import Any

from flwr.app import MetricRecord
from flwr.supercore import log

from adagq.rounds import RoundResult

Row = Mapping[str, Any]


def metric_of(metrics: MetricRecord | None, name: str) -> float:
    """Return the metric of this name, or the first one that has it in its name; NaN if there is none."""
    if metrics is None:
        return math.nan
    short = "acc" if name == "accuracy" else name
    key = name if name in metrics else next((key for key in metrics if short in key.lower()), None)
    value = metrics[key] if key is not None else math.nan
    return float(value) if isinstance(value, int | float) else math.nan


def fill_in(row: dict[str, Any], metrics: MetricRecord) -> None:
    """Take accuracy and loss from the nodes' evaluation where the server did not evaluate."""
    for name in ("accuracy", "loss"):
        if row[name] is None and math.isfinite(value := metric_of(metrics, name)):
            row[name] = value


def metrics_of(row: Row) -> MetricRecord:
    """Return a round's numbers as Flower's metrics."""
    numbers = {key.replace("_", "-"): value for key, value in row.items() if isinstance(value, int | float)}
    return MetricRecord({key: value for key, value in numbers.items() if key not in ("seed", "round")})


def log_round(one: RoundResult, num_rounds: int) -> None:
    """Say in one line what happened in a round."""
    row = one.row
    accuracy = "" if row["accuracy"] is None else f"accuracy {row['accuracy']:.4f}, "
    kinds = Counter(str(incident["kind"]) for incident in one.incidents)
    evaluated = f", {row['evaluation_bytes']} bytes for evaluation" if "evaluation_bytes" in row else ""
    log(
        INFO,
        "[ROUND %s/%s] %s%d nodes%s, %.1f s (server and Flower %.1f s), %d bytes up, %d bytes down%s",
        *(row["round"], num_rounds, accuracy, row["clients"]),
        "".join(f", {count} {kind}" for kind, count in sorted(kinds.items())),
        *(row["round_seconds"], row["server_seconds"], row["upload_bytes"], row["download_bytes"], evaluated),
    )
