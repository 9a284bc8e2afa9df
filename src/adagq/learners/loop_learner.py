"""A `client.Learner` around your own training loop: the least that a torch app has to hand over.

    LoopLearner(Net(), train=lambda net, epochs, lr: …, loss=lambda net: …, examples=600)

The module is used as it is, wherever it lies: the loop may move it to a device and back. Everything that the loop draws
from torch's global generator (shuffling loaders, dropout) comes from the run's seed.
"""

from collections.abc import Callable

import torch
from torch import nn

from adagq.core.errors import ConfigError, DataError
from adagq.core.vectors import FloatVector
from adagq.learners.torch_learner import seeded
from adagq.learners.travelling import layout_of, stored_buffers, trained_parameters, travelling_state

Train = Callable[[nn.Module, int, float], float | None]  # module, epochs, learning rate -> mean training loss
Loss = Callable[[nn.Module], float]  # module -> loss on held-out samples


class LoopLearner:
    """One client. `train` changes the module in place; `loss` (for methods that probe) must not change it.

    Parameters
    ----------
    module : nn.Module
        The model, in any precision. Parameters that do not require gradients stay as they are and never travel.
    train : Callable[[nn.Module, int, float], float | None]
        Trains for so many epochs at this learning rate; may return the mean loss.
    examples : int
        Training samples: the weight of this client in the average.
    loss : Callable[[nn.Module], float], optional
        Loss on samples that are not trained on, always the same ones.
    held_out : int (default: 0)
        How many samples `loss` goes through.
    """

    def __init__(
        self, module: nn.Module, train: Train, examples: int, loss: Loss | None = None, held_out: int = 0
    ) -> None:
        if examples < 1:
            raise ConfigError(f"examples = {examples}: a client needs at least one training sample")
        self.module = module
        self.examples, self.held_out = examples, held_out
        self._train, self._loss = train, loss
        self.layout = layout_of(module)

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        arrays = self.layout.unpack(vector, buffers)
        with torch.no_grad():
            for name, tensor in {**trained_parameters(self.module), **stored_buffers(self.module)}.items():
                tensor.copy_(torch.as_tensor(arrays[name]))

    def dump(self) -> tuple[FloatVector, FloatVector]:
        return self.layout.pack(travelling_state(self.module))

    def train(self, epochs: int, learning_rate: float, seed: int) -> float:
        self.module.train()
        with seeded(seed):
            loss = self._train(self.module, epochs, learning_rate)
        return float("nan") if loss is None else float(loss)

    def loss(self) -> float:
        if self._loss is None:
            raise DataError("this client has no `loss`, which methods that probe need (adagq); give LoopLearner one")
        was_training = self.module.training
        self.module.eval()
        with torch.no_grad():
            value = float(self._loss(self.module))
        self.module.train(was_training)
        return value
