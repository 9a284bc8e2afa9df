"""What a node trains with what."""

from flwr.app import Context

from netbench_app.task import NumpyLearner


def learner(context: Context) -> NumpyLearner:
    """Return this node's model and data."""
    run, node = context.run_config, context.node_config
    return NumpyLearner(str(run["data"]), int(run["hidden"]), int(node["partition-id"]), int(node["num-partitions"]))
