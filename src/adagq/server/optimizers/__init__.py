"""Server optimizers: how far the model moves for the mean update of a round.

    plain       step = rate * g
    momentum    b = momentum * b + g;   step = rate * b                      (heavy ball; FedAvgM)
    nesterov    b = momentum * b + g;   step = rate * (momentum * b + g)
    adam, yogi  step = rate * m / (sqrt(v) + epsilon), m per element, v per tensor
    fedexp      step = g * the extrapolation that the clients' disagreement allows
    auto        Nesterov's momentum; FedExP's extrapolation as far as means agree from round to round

`g` is the weighted mean of the updates. An optimizer is a frozen value, its memory a named dictionary of arrays that
goes into checkpoints. The step is what the server broadcasts: no extra byte travels. Any row of the table takes one as
a suffix (`qsgd+nesterov`), and another package adds one by the entry point group "adagq.optimizers".
"""

from adagq.server.optimizers.adaptive import Adam, Yogi
from adagq.server.optimizers.auto import Auto
from adagq.server.optimizers.fedexp import FedExP
from adagq.server.optimizers.momentum import Momentum, Nesterov
from adagq.server.optimizers.optimizer import OPTIMIZERS, Optimizer, Step, optimizer_of
from adagq.server.optimizers.plain import Plain

__all__ = [
    "OPTIMIZERS",
    "Adam",
    "Auto",
    "FedExP",
    "Momentum",
    "Nesterov",
    "Optimizer",
    "Plain",
    "Step",
    "Yogi",
    "optimizer_of",
]
