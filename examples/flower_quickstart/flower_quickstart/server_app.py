"""The server's side: a Flower ServerApp with adagq's strategy."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from adagq.flower import Compressed
from flower_quickstart.task import Net, load_test_data, test

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for `num-server-rounds`; `out` keeps rows, ledger and report material."""
    config = context.run_config
    torch.manual_seed(0)
    strategy = Compressed(
        str(config["method"]),
        exchanges=int(config["exchanges"]),
        min_available_nodes=int(config["min-nodes"]),
        out=str(config["out"]) or None,
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        num_rounds=int(config["num-server-rounds"]),
        train_config=ConfigRecord({"lr": float(config["learning-rate"])}),
        evaluate_fn=evaluate,
    )


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Test the model of this round on the common test set."""
    net = Net()
    net.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = test(net, load_test_data())
    return MetricRecord({"accuracy": accuracy, "loss": loss})
