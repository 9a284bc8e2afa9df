"""What a node trains with what."""

from flwr.app import Context

from adagq.learners import LoopLearner
from flower_quickstart.task import Net, load_data, test, train


def learner(context: Context) -> LoopLearner:
    """Return this node's model and data."""
    loader, held_out = load_data(
        int(context.node_config["partition-id"]),
        int(context.node_config["num-partitions"]),
        int(context.run_config["batch-size"]),
    )
    return LoopLearner(
        Net(),
        train=lambda net, epochs, lr: train(net, loader, epochs, lr),
        loss=lambda net: test(net, held_out)[0],
        examples=len(loader.dataset),
        held_out=len(held_out.dataset),
    )
