"""A `client.Learner` around your own training loop: the least that a torch app has to hand over.

    LoopLearner(Net(), train=lambda net, epochs, lr: …, loss=lambda net: …, examples=600)

The module is used as it is, wherever it lies: the loop may move it to a device and back. Everything that the loop draws
from torch's global generator (shuffling loaders, dropout) comes from the run's seed.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from adagq.core.errors import DataError
from adagq.core.vectors import FloatVector
from adagq.learners.own_functions import Metrics, OwnFunctions, metrics_of, takes_config
from adagq.learners.torch_learner import seeded
from adagq.learners.travelling import layout_of, stored_buffers, tied_names, trained_parameters, travelling_state

Train = Callable[..., float | Metrics | None]  # module, epochs, learning rate -> mean training loss, or metrics
Loss = Callable[[nn.Module], float]  # module -> loss on held-out samples
Evaluate = Callable[..., Metrics]  # module -> metrics on this client's own samples


class LoopLearner:
    """One client. `train` changes the module in place; `loss` (for methods that probe) must not change it.

    Parameters
    ----------
    module : nn.Module
        The model, in any precision. Parameters that do not require gradients stay as they are and never travel.
    train : Callable[[nn.Module, int, float], float | Mapping[str, float] | None]
        Trains for so many epochs at this learning rate; may return the mean loss, or metrics with a "train_loss".
        With a parameter `config` it gets the server's `train_config`.
    examples : int
        Training samples: the weight of this client in the average.
    loss : Callable[[nn.Module], float], optional
        Loss on samples that are not trained on, always the same ones.
    held_out : int (default: 0)
        How many samples `loss` and `evaluate` go through.
    evaluate : Callable[[nn.Module], Mapping[str, float]], optional
        Metrics on this client's own samples, for evaluation on nodes: {"eval_loss": …, "eval_acc": …}. "num-examples"
        among them is their weight, else `held_out`. With a parameter `config` it gets the server's `evaluate_config`.
    least_epochs : float (default: 1.0)
        The least that `train` can be asked for: below 1, such as batch size / examples, it takes parts of an epoch
        (`adagq-auto` asks for them), else whole numbers alone.
    """

    def __init__(
        self,
        module: nn.Module,
        train: Train,
        examples: int,
        loss: Loss | None = None,
        held_out: int = 0,
        evaluate: Evaluate | None = None,
        least_epochs: float = 1.0,
    ) -> None:
        self._functions = OwnFunctions(examples, least_epochs)
        self.least_epochs = least_epochs
        self.module = module
        self.examples, self.held_out = examples, held_out
        self._train, self._loss, self._evaluate = train, loss, evaluate
        self.takes_config = takes_config(train) or takes_config(evaluate)
        self.evaluate = None if evaluate is None else self._evaluated
        self.layout, self.tied = layout_of(module), tied_names(module)

    @property
    def train_metrics(self) -> Metrics:
        """Metrics of the last training, beside its loss."""
        return self._functions.metrics

    def configure(self, config: Mapping[str, Any]) -> None:
        """Take what the server's `train_config` or `evaluate_config` says."""
        self._functions.config = dict(config)

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        arrays = self.layout.unpack(vector, buffers)
        with torch.no_grad():
            for name, tensor in {**trained_parameters(self.module), **stored_buffers(self.module)}.items():
                tensor.copy_(torch.as_tensor(arrays[name]))

    def dump(self) -> tuple[FloatVector, FloatVector]:
        return self.layout.pack(travelling_state(self.module))

    def train(self, epochs: float, learning_rate: float, seed: int) -> float:
        self.module.train()
        with seeded(seed):
            said = self._functions.call(self._train, self.module, epochs, learning_rate)
        return self._functions.trained(said)

    def loss(self) -> float:
        if self._loss is None:
            raise DataError("this client has no `loss`, which methods that probe need (adagq); give LoopLearner one")
        return float(self._without_training(self._loss))

    def _evaluated(self) -> dict[str, float]:
        assert self._evaluate is not None
        return metrics_of(self._without_training(self._evaluate))

    def _without_training(self, function: Callable[..., Any]) -> Any:
        was_training = self.module.training
        self.module.eval()
        with torch.no_grad():
            said = self._functions.call(function, self.module)
        self.module.train(was_training)
        return said
