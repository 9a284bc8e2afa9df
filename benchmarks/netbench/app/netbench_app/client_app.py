"""Nodes: adagq's handler, and the plain one that Flower's own FedAvg needs."""

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from adagq.flower import register

EPOCHS = 5  # of adagq's row `fedavg`
app = ClientApp()
register(app, "netbench_app.learner:learner")


@app.train()
def train_plainly(message: Message, context: Context) -> Message:
    """Train on whole models, as Flower's FedAvg sends them."""
    from netbench_app.learner import learner
    from netbench_app.task import train

    own = learner(context)
    model = {name: array.numpy().copy() for name, array in message.content["arrays"].items()}
    train(model, *own._own, EPOCHS, float(message.content["config"]["lr"]), 0)
    arrays = ArrayRecord({name: Array(array) for name, array in model.items()})
    return Message(
        RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": own.examples})}), reply_to=message
    )
