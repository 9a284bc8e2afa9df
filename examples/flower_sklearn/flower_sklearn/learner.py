"""A linear classifier of handwritten digits: its arrays are `coef_` and `intercept_`."""

import numpy as np
from flwr.app import Context
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss

from adagq import ArrayLearner

CLASSES = np.arange(10)


def initial() -> list[np.ndarray]:
    return [np.zeros((10, 64)), np.zeros(10)]


def model_of(arrays: list[np.ndarray], **settings: object) -> SGDClassifier:
    model = SGDClassifier(loss="log_loss", learning_rate="constant", **settings)
    model.coef_, model.intercept_ = arrays
    model.classes_ = CLASSES
    return model


def learner(context: Context) -> ArrayLearner:
    """Return this node's model and data."""
    images, labels = load_digits(return_X_y=True)
    own = np.arange(int(context.node_config["partition-id"]), len(labels), int(context.node_config["num-partitions"]))
    x, y = images[own] / 16, labels[own]
    x, x_test, y, y_test = x[50:], x[:50], y[50:], y[:50]

    def train(arrays: list[np.ndarray], epochs: int, lr: float, seed: int) -> list[np.ndarray]:
        model = model_of(arrays, eta0=lr, random_state=seed)
        for _ in range(epochs):
            model.partial_fit(x, y, classes=CLASSES)
        return [model.coef_, model.intercept_]

    def evaluate(arrays: list[np.ndarray]) -> dict[str, float]:
        model = model_of(arrays)
        loss = log_loss(y_test, model.predict_proba(x_test), labels=CLASSES)
        return {"eval_loss": loss, "eval_acc": model.score(x_test, y_test)}

    return ArrayLearner(
        initial(),
        train,
        examples=len(y),
        loss=lambda arrays: evaluate(arrays)["eval_loss"],
        evaluate=evaluate,
        held_out=len(y_test),
    )
