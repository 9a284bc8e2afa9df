"""The server: any of adagq's methods, or Flower's own FedAvg, until the target accuracy is reached."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from adagq.flower import Compressed
from netbench_app.learner import task_of
from netbench_app.task import load, scores

FLOWERS_OWN = "flower-fedavg"
WAIT_SECONDS = 120.0  # for the nodes to connect, before the clock starts
REST_SECONDS = 8.0  # and to come to rest: nodes are up long before a run
app = ServerApp()


class EnoughError(Exception):
    """Ends Flower's own loop, which knows no target."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one method and note the second of every round's model, from `start` on."""
    config = context.run_config
    nodes, out = int(config["nodes"]), Path(str(config["out"]))
    task = task_of(config)
    *_, images, labels = load(task.path)
    _wait_for(grid, nodes)
    out.mkdir(parents=True, exist_ok=True)
    rounds: list[dict[str, float]] = []
    begun = time.perf_counter()
    (out / "begun").touch()

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        seconds = time.perf_counter() - begun
        accuracy, loss = scores({name: array.numpy() for name, array in arrays.items()}, images, labels)
        if server_round > 0:
            rounds.append({"round": server_round, "seconds": seconds, "accuracy": accuracy})
            if config["method"] == FLOWERS_OWN and enough():
                raise EnoughError
        return MetricRecord({"accuracy": accuracy, "loss": loss})

    def enough() -> bool:
        last = rounds[-1]
        return last["accuracy"] >= float(config["target"]) or last["seconds"] >= float(config["longest-seconds"])

    with suppress(EnoughError):
        _strategy(config, enough).start(
            grid=grid,
            initial_arrays=ArrayRecord({name: Array(array) for name, array in task.first().items()}),
            num_rounds=int(config["num-server-rounds"]),
            train_config=ConfigRecord({"lr": float(config["lr"])}),
            evaluate_fn=evaluate,
        )
    (out / "rounds.json").write_text(json.dumps(rounds), "utf-8")


def _strategy(config: dict, enough: Callable[[], bool]) -> FedAvg | Compressed:
    method, nodes = str(config["method"]), int(config["nodes"])
    if method == FLOWERS_OWN:
        return FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    return Compressed(
        method,
        min_available_nodes=nodes,
        seed=int(config["seed"]),
        exchanges="auto",
        out=str(config["out"]) + "/run",
        until=lambda rows: enough(),
    )


def _wait_for(grid: Grid, nodes: int) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while len(list(grid.get_node_ids())) < nodes and time.monotonic() < until:
        time.sleep(0.2)
    time.sleep(REST_SECONDS)
