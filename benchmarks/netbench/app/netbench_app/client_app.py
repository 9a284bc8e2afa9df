"""Nodes: adagq's handler, and the plain one that Flower's own FedAvg needs."""

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from adagq.flower import register

EPOCHS = 5  # of adagq's row `fedavg`
app = ClientApp()
register(app, "netbench_app.learner:learner")


@app.train()
def train_plainly(message: Message, context: Context) -> Message:
    """Train on whole models, as Flower's FedAvg sends them; the same samples in the same order as adagq's `fedavg`."""
    from adagq.core.seeds import derive
    from netbench_app.learner import learner

    own, config = learner(context), message.content["config"]
    own.model = {name: array.numpy().copy() for name, array in message.content["arrays"].items()}
    seed = derive(int(context.run_config["seed"]), "train", int(config["server-round"]), own.client)
    loss = own.train(EPOCHS, float(config["lr"]), seed)
    arrays = ArrayRecord({name: Array(array) for name, array in own.model.items()})
    metrics = MetricRecord({"num-examples": own.examples, "train-loss": loss})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
