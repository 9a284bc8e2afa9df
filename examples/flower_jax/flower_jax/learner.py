"""A small network for handwritten digits in JAX: a dictionary of arrays, trained by compiled SGD."""

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Context
from sklearn.datasets import load_digits

from adagq import ArrayLearner

Arrays = dict[str, np.ndarray]


def initial() -> Arrays:
    random = np.random.default_rng(0)
    return {
        "hidden": random.normal(0, 0.1, (64, 32)).astype(np.float32),
        "hidden_bias": np.zeros(32, np.float32),
        "output": random.normal(0, 0.1, (32, 10)).astype(np.float32),
        "output_bias": np.zeros(10, np.float32),
    }


def scores(arrays: Arrays, x: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(x @ arrays["hidden"] + arrays["hidden_bias"])
    return hidden @ arrays["output"] + arrays["output_bias"]


@jax.jit
def loss_of(arrays: Arrays, x: jax.Array, y: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(scores(arrays, x)), y[:, None], 1).mean()


@jax.jit
def step(arrays: Arrays, x: jax.Array, y: jax.Array, lr: float) -> tuple[jax.Array, Arrays]:
    loss, gradients = jax.value_and_grad(loss_of)(arrays, x, y)
    return loss, jax.tree.map(lambda array, gradient: array - lr * gradient, arrays, gradients)


def learner(context: Context) -> ArrayLearner:
    """Return this node's model and data."""
    images, labels = load_digits(return_X_y=True)
    own = np.arange(int(context.node_config["partition-id"]), len(labels), int(context.node_config["num-partitions"]))
    x, y = (images[own] / 16).astype(np.float32), labels[own]
    x, x_test, y, y_test = x[50:], x[:50], y[50:], y[:50]

    def train(arrays: Arrays, epochs: int, lr: float, seed: int) -> tuple[Arrays, float]:
        random, losses = np.random.default_rng(seed), []
        for _ in range(epochs):
            for rows in random.permutation(len(y))[: len(y) // 32 * 32].reshape(-1, 32):
                loss, arrays = step(arrays, x[rows], y[rows], lr)
                losses.append(float(loss))
        return arrays, float(np.mean(losses))

    def evaluate(arrays: Arrays) -> dict[str, float]:
        accuracy = (scores(arrays, x_test).argmax(1) == y_test).mean()
        return {"eval_loss": float(loss_of(arrays, x_test, y_test)), "eval_acc": float(accuracy)}

    return ArrayLearner(
        initial(),
        train,
        examples=len(y),
        loss=lambda arrays: float(loss_of(arrays, x_test, y_test)),
        evaluate=evaluate,
        held_out=len(y_test),
    )
