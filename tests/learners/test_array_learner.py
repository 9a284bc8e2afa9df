"""Models that are plain arrays: one client, a population, and whole runs without torch."""

import subprocess
import sys

import numpy as np
import pytest

import adagq
from adagq.core.errors import ConfigError, DataError, LayoutError


def data(samples: int, seed: int):
    x = np.random.default_rng(seed).standard_normal((samples, 6)).astype(np.float32)
    return x, x[:, :3].argmax(1)


def softmax(arrays, x):
    weights, bias = arrays
    scores = np.exp((z := x @ weights + bias) - z.max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True)


def train(arrays, epochs, lr, seed, x=None, y=None):
    """Plain NumPy: softmax regression by SGD."""
    weights, bias = (array.copy() for array in arrays)
    random, loss = np.random.default_rng(seed), 0.0
    for _ in range(epochs):
        for rows in np.array_split(random.permutation(len(y)), 5):
            shares = softmax([weights, bias], x[rows])
            loss += float(-np.log(shares[np.arange(len(rows)), y[rows]]).mean()) / 5 / epochs
            error = (shares - np.eye(3)[y[rows]]) / len(rows)
            weights -= lr * (x[rows].T @ error)
            bias -= lr * error.sum(0)
    return [weights, bias], {"train_loss": loss, "samples": float(len(y))}


def learner(seed: int, **options) -> adagq.ArrayLearner:
    x, y = data(50, seed)
    return adagq.ArrayLearner(
        [np.zeros((6, 3)), np.zeros(3)],
        lambda arrays, epochs, lr, seed: train(arrays, epochs, lr, seed, x, y),
        examples=50,
        loss=lambda arrays: float(-np.log(softmax(arrays, x)[np.arange(50), y]).mean()),
        **options,
    )


def build(clients: int = 3, seed: int = 0) -> adagq.ArrayPopulation:
    x, y = data(200, 99)

    def evaluate(arrays):
        shares = softmax(arrays, x)
        return (shares.argmax(1) == y).mean(), -np.log(shares[np.arange(200), y]).mean()

    return adagq.ArrayPopulation(
        lambda seed: [np.random.default_rng(seed).normal(0, 0.1, (6, 3)), np.zeros(3)],
        [learner(10 * seed + client) for client in range(clients)],
        evaluate,
    )


def test_a_client_trains_from_what_it_is_given() -> None:
    one = learner(1)
    assert [tensor.name for tensor in one.layout.tensors] == ["0", "1"]  # as in Flower's ArrayRecord of a list
    first, buffers = one.dump()
    loss = one.train(2, 0.1, seed=5)
    after, _ = one.dump()
    assert 0.5 < loss < 1.2
    assert one.train_metrics == {"samples": 50.0}
    assert one.arrays[0].shape == (6, 3)
    assert one.arrays[0].dtype == np.float64  # its own precision; float32 travels
    one.load(first, buffers)
    one.train(2, 0.1, seed=5)
    assert np.array_equal(one.dump()[0], after)  # the same seed, the same model
    one.load(first, buffers)
    one.train(2, 0.1, seed=6)
    assert not np.array_equal(one.dump()[0], after)
    assert one.loss() < np.log(3)


def test_a_dictionary_stays_one_and_other_arrays_are_buffers() -> None:
    seen = []

    def step(arrays, epochs, lr, config):
        seen.append((arrays, dict(config)))
        return {**arrays, "count": arrays["count"] + 1}

    arrays = {"w": np.ones(4), "mean": np.zeros(2), "count": np.array(0)}
    one = adagq.ArrayLearner(
        arrays, step, examples=1, buffers=["mean"], evaluate=lambda arrays: {"w": arrays["w"].sum()}
    )
    assert (one.layout.elements, one.layout.buffer_elements) == (4, 3)
    one.configure({"server-round": 2})
    assert np.isnan(one.train(1, 0.1, 0))
    assert seen[0][1] == {"server-round": 2}
    assert one.arrays["count"] == 1
    assert one.evaluate() == {"w": 4.0}
    assert learner(0).evaluate is None


def test_a_whole_comparison_needs_no_torch() -> None:
    script = (
        "import sys; sys.path.insert(0, 'tests/learners'); sys.modules['torch'] = None\n"
        "import adagq\nfrom test_array_learner import build\n"
        "rows = adagq.compare(task=build, methods=['adagq', 'adagq-fit'], training={'max_rounds': 30}).rows\n"
        "print(max(row['accuracy'] for row in rows if row['method'] == 'adagq-fit'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) >= 0.9


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: adagq.ArrayLearner([np.arange(3)], train, examples=3), LayoutError, "no floating-point array"),
        (lambda: adagq.ArrayLearner([np.zeros(3)], train, examples=0), ConfigError, "at least one training sample"),
        (lambda: adagq.ArrayLearner([np.zeros(3)], train, examples=1).loss(), DataError, "give ArrayLearner one"),
        (lambda: adagq.ArrayPopulation(lambda seed: [], [], None), DataError, "at least one client"),
        (
            lambda: adagq.ArrayLearner([np.zeros(3)], lambda *_: [np.zeros(2)], examples=1).train(1, 0.1, 0),
            LayoutError,
            r"0: shape \(2,\), the layout has \(3,\)",
        ),
        (
            lambda: adagq.ArrayLearner([np.zeros(3)], train, examples=1, evaluate=lambda _: 0.5).evaluate(),
            ConfigError,
            "evaluate returned float",
        ),
    ],
)
def test_mistakes_are_named(make, error, message: str) -> None:
    with pytest.raises(error, match=message):
        make()
