"""A server that evaluates how near the vector is to 1."""

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from adagq.flower import Compressed

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one method."""
    config = context.run_config
    strategy = Compressed(
        str(config["method"]),
        min_available_nodes=int(config["min-nodes"]),
        exchanges=int(config["exchanges"]),
        deadline_seconds=float(config["deadline-seconds"]),
        out=str(config["out"]),
        resume=bool(config["resume"]),
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({"t0": Array(np.zeros(int(config["elements"]), np.float32))}),
        num_rounds=int(config["num-server-rounds"]),
        train_config=ConfigRecord({"lr": 0.2}),
        evaluate_fn=evaluate,
    )


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Return a number that grows to 1 as the vector does."""
    loss = float(np.mean(np.square(arrays["t0"].numpy() - 1)))
    return MetricRecord({"accuracy": float(np.exp(-loss)), "loss": loss})
