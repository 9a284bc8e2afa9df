"""The server's side: a Flower ServerApp with adagq's strategy; nodes evaluate each round's model."""

from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp

from adagq.flower import AdaGQ
from flower_sklearn.learner import initial

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = AdaGQ(min_available_nodes=int(config["min-nodes"]))
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(initial()),
        num_rounds=int(config["num-server-rounds"]),
        train_config=ConfigRecord({"lr": float(config["learning-rate"])}),
    )
    print(result.evaluate_metrics_clientapp)
