"""Nodes: adagq's handler, and the plain one that Flower's own FedAvg needs."""

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from adagq.flower import register
from netbench_app.task import NumpyLearner, train

EPOCHS = 5  # of adagq's row `fedavg`
app = ClientApp()


@register(app)
def learner(context: Context) -> NumpyLearner:
    """Return this node's model and data."""
    run, node = context.run_config, context.node_config
    return NumpyLearner(str(run["data"]), int(run["hidden"]), int(node["partition-id"]), int(node["num-partitions"]))


@app.train()
def train_plainly(message: Message, context: Context) -> Message:
    """Train on whole models, as Flower's FedAvg sends them."""
    own = learner(context)
    model = {name: array.numpy().copy() for name, array in message.content["arrays"].items()}
    train(model, *own._own, EPOCHS, float(message.content["config"]["lr"]), 0)
    arrays = ArrayRecord({name: Array(array) for name, array in model.items()})
    return Message(
        RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": own.examples})}), reply_to=message
    )
