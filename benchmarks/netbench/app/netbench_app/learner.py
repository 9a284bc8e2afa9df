"""What a node trains with what."""

from flwr.app import Context

from netbench_app.task import NumpyLearner, Task


def task_of(run: dict) -> Task:
    """Return the task of a run's settings."""
    return Task(str(run["data"]), int(run["nodes"]), int(run["hidden"]), seed=int(run["seed"]))


def learner(context: Context) -> NumpyLearner:
    """Return this node's model, data and speed."""
    run = context.run_config
    return NumpyLearner(task_of(run), int(context.node_config["partition-id"]), float(run["epoch-seconds"]))
