"""The server: any of adagq's methods, or Flower's own FedAvg for comparison."""

import json
import time
from itertools import pairwise
from pathlib import Path

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from adagq.flower import Compressed
from netbench_app.task import initial, load, test

LEARNING_RATE = 0.02
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one method for so many rounds."""
    config = context.run_config
    method, rounds, nodes = str(config["method"]), int(config["num-server-rounds"]), int(config["nodes"])
    out = Path(str(config["out"]))
    *_, images, labels = load(str(config["data"]))
    model = initial(int(config["hidden"]))
    ends: list[float] = []

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        ends.append(time.perf_counter())
        loss, accuracy = test({name: array.numpy() for name, array in arrays.items()}, images, labels)
        return MetricRecord({"accuracy": accuracy, "loss": loss})

    plain = method == "flower-fedavg"
    if plain:
        strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    else:
        exchanges = int(config["exchanges"])
        strategy = Compressed(
            method, min_available_nodes=nodes, exchanges=exchanges, out=out, deadline_seconds=600.0, decay=1.0
        )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({name: Array(array) for name, array in model.items()}),
        num_rounds=rounds,
        train_config=ConfigRecord({"lr": LEARNING_RATE}),
        evaluate_fn=evaluate,
    )
    out.mkdir(parents=True, exist_ok=True)
    seconds = [later - earlier for earlier, later in pairwise(ends)]
    (out / "rounds.json").write_text(json.dumps({"method": method, "round_seconds": seconds}), "utf-8")
