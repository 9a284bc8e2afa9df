"""A `client.Learner` and a `client.Population` over plain NumPy arrays: scikit-learn, JAX, or whatever has arrays.

    ArrayLearner([weights, bias], train=lambda arrays, epochs, lr: …, examples=600)

The model is a list or a dictionary of arrays; `train` gets one of that form and returns another. Floating-point arrays
are trained and travel as compressed differences; others, and those named in `buffers`, travel as they are. Torch is not
imported.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from adagq.core.errors import DataError, LayoutError
from adagq.core.seeds import derive
from adagq.core.vectors import FloatVector, Layout
from adagq.learners.own_functions import OwnFunctions, metrics_of, takes_config

Arrays = Sequence[Any] | Mapping[str, Any]  # what NumPy takes for an array
Metrics = Mapping[str, float]
FLOPS_PER_PARAMETER = 6.0  # of one sample, forward and backward, where nobody knows better


def named(arrays: Arrays) -> dict[str, Any]:
    """Return arrays by name; those of a list are called "0", "1", …, as Flower's `ArrayRecord` calls them."""
    if isinstance(arrays, Mapping):
        return {str(name): np.asarray(array) for name, array in arrays.items()}
    return {str(number): np.asarray(array) for number, array in enumerate(arrays)}


class ArrayLearner:
    """One client.

    Parameters
    ----------
    arrays : list or dict of arrays
        A model of this form; its values count only until the server's first model arrives.
    train : Callable[[arrays, int, float], arrays or (arrays, loss or metrics)]
        Trains for so many epochs at this learning rate and returns the new arrays, in the same form. With a parameter
        `seed` it gets one that decides all of its randomness, with a parameter `config` the server's `train_config`.
    examples : int
        Training samples: the weight of this client in the average.
    loss : Callable[[arrays], float], optional
        Loss on samples that are not trained on, always the same ones: for methods that probe.
    evaluate : Callable[[arrays], Mapping[str, float]], optional
        Metrics of the model on this client's own samples: for evaluation on nodes.
    held_out : int (default: 0)
        How many samples `loss` and `evaluate` go through.
    buffers : collection of names (of a list: "0", "1", …), optional
        Arrays that are not trained.
    least_epochs : float (default: 1.0)
        The least that `train` can be asked for: below 1, such as batch size / examples, it takes parts of an epoch
        (`adagq-auto` asks for them), else whole numbers alone.

    >>> learner = ArrayLearner([np.zeros((2, 2)), np.zeros(2)], lambda arrays, epochs, lr: arrays, examples=3)
    >>> learner.layout.shapes
    ((2, 2), (2,))
    """

    def __init__(
        self,
        arrays: Arrays,
        train: Callable[..., Any],
        examples: int,
        loss: Callable[..., float] | None = None,
        evaluate: Callable[..., Metrics] | None = None,
        held_out: int = 0,
        buffers: Collection[str] | None = None,
        least_epochs: float = 1.0,
    ) -> None:
        self._functions = OwnFunctions(examples, least_epochs)
        self.least_epochs = least_epochs
        self._named = isinstance(arrays, Mapping)
        self.layout = Layout.of(named(arrays), None if buffers is None else [str(name) for name in buffers])
        if not self.layout.elements:
            raise LayoutError("the model has no floating-point array that is trained")
        self._state = self.layout.pack(named(arrays))
        self.examples, self.held_out = examples, held_out
        self._train, self._loss, self._evaluate = train, loss, evaluate
        self.takes_config = takes_config(train) or takes_config(evaluate)
        self.evaluate = None if evaluate is None else self._evaluated

    @property
    def arrays(self) -> Any:
        """The model as it is now, in the form in which it was given."""
        state = self.layout.unpack(*self._state)
        return state if self._named else list(state.values())

    @property
    def train_metrics(self) -> Metrics:
        return self._functions.metrics

    def configure(self, config: Mapping[str, Any]) -> None:
        self._functions.config = dict(config)

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        self._state = vector.copy(), buffers.copy()

    def dump(self) -> tuple[FloatVector, FloatVector]:
        vector, buffers = self._state
        return vector.copy(), buffers.copy()

    def train(self, epochs: float, learning_rate: float, seed: int) -> float:
        train = _seeded(self._train, derive(seed, "train") % 2**32)  # what NumPy's and scikit-learn's generators take
        said = self._functions.call(train, self.arrays, epochs, learning_rate)
        pair = isinstance(said, tuple) and len(said) == 2 and (said[1] is None or np.ndim(said[1]) == 0)
        arrays, told = said if pair else (said, None)
        self._state = self.layout.pack(named(arrays))
        return self._functions.trained(told)

    def loss(self) -> float:
        if self._loss is None:
            raise DataError("this client has no `loss`, which methods that probe need (adagq); give ArrayLearner one")
        return float(self._loss(self.arrays))

    def _evaluated(self) -> dict[str, float]:
        assert self._evaluate is not None
        return metrics_of(self._functions.call(self._evaluate, self.arrays))


def _seeded(function: Callable[..., Any], seed: int) -> Callable[..., Any]:
    """Return the function with its parameter `seed` set, if it has one."""
    import functools
    import inspect

    return functools.partial(function, seed=seed) if "seed" in inspect.signature(function).parameters else function


class ArrayPopulation:
    """All clients of a simulated federation of `ArrayLearner`s.

    Parameters
    ----------
    initial : Callable[[int], arrays]
        Draws the first model from a seed.
    clients : sequence of ArrayLearner
        One for each client.
    evaluate : Callable[[arrays], tuple[float, float]]
        Accuracy and loss of a model on the common test set.
    flops_per_sample : float, optional
        To train on one sample; by default six times the parameters. Fleets that name `flops_per_second` need it.
    """

    test_samples = 1  # the test set is gone through as a whole, by one worker

    def __init__(
        self,
        initial: Callable[[int], Arrays],
        clients: Sequence[ArrayLearner],
        evaluate: Callable[[Any], tuple[float, float]],
        flops_per_sample: float | None = None,
    ) -> None:
        if not clients:
            raise DataError("a population needs at least one client")
        self._initial, self._learners, self._evaluate = initial, list(clients), evaluate
        self.layout = self._learners[0].layout
        self.clients = len(self._learners)
        self.flops_per_sample = flops_per_sample or FLOPS_PER_PARAMETER * self.layout.elements
        self._named = isinstance(initial(0), Mapping)

    def initial(self, seed: int) -> tuple[FloatVector, FloatVector]:
        return self.layout.pack(named(self._initial(derive(seed, "model") % 2**32)))

    def learner(self, client: int) -> ArrayLearner:
        return self._learners[client]

    def evaluate(
        self, vector: FloatVector, buffers: FloatVector, first: int = 0, last: int | None = None
    ) -> tuple[float, float]:
        state = self.layout.unpack(vector, buffers)
        accuracy, loss = self._evaluate(state if self._named else list(state.values()))
        return float(accuracy), float(loss)
