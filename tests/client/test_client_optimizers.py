"""FedProx and FedCM: by hand, as suffixes, in settings, and with learners that cannot."""

import numpy as np
import pytest
import torch
from torch import nn

from adagq.client.optimizers import FedCM, FedProx, steer
from adagq.core.errors import ConfigError
from adagq.experiments.config import load_config
from adagq.learners.torch_learner import TorchLearner
from adagq.methods.table import method_of

RATE = 0.1
X, Y = torch.ones(4, 1), torch.zeros(4, 1)


def learner(batch_size: int = 4) -> TorchLearner:
    """Loss w^2 over samples of 1: the gradient is 2 w."""
    made = TorchLearner(
        nn.Linear(1, 1, bias=False), (X, Y), batch_size=batch_size, loss=lambda out, y: ((out - y) ** 2).mean()
    )
    made.load(np.array([1.0], np.float32), np.zeros(0, np.float32))
    return made


def trained(proximal: float = 0.0, inertia: float = 0.0, direction: float = 0.0, epochs: int = 2) -> float:
    made = learner()
    made.steer(proximal, inertia, np.array([direction], np.float32))
    made.train(epochs, RATE, 0)
    return float(made.dump()[0][0])


def test_steps_by_hand() -> None:
    assert trained() == pytest.approx(0.8 * 0.8)
    # w = 0.8 after the first step; the second adds mu (0.8 - 1) to the gradient.
    assert trained(proximal=0.5) == pytest.approx(0.8 - RATE * (1.6 - 0.1))
    # Half the gradient, and half of the last step (0.3) spread over two local steps of this learning rate.
    first = 1.0 - RATE * (1.0 + 0.5 * 0.3 / (RATE * 2))
    assert trained(inertia=0.5, direction=0.3) == pytest.approx(first - RATE * (first + 0.5 * 0.3 / (RATE * 2)))


def test_without_a_last_step_fedcm_is_plain_and_nothing_stays_behind() -> None:
    assert trained(inertia=0.9) == trained()
    made = learner()
    made.steer(0.5, 0.5, np.ones(1, np.float32))
    made.steer(0.0, 0.0, np.ones(1, np.float32))
    made.train(2, RATE, 0)
    assert float(made.dump()[0][0]) == trained()


def test_suffixes_settings_and_variants() -> None:
    assert method_of("fedavg+fedprox").client_optimizer == FedProx()
    both = method_of("qsgd+nesterov+fedcm")
    assert (both.client_optimizer, both.name) == (FedCM(), "qsgd+nesterov+fedcm")
    config = load_config(None, ["client_optimizer={ kind = 'fedprox', mu = 0.3 }"])
    assert config.row("fedavg").client_optimizer == FedProx(0.3)
    assert config.row("fedavg+fedcm").client_optimizer == FedCM()
    assert config.row("ideal").client_optimizer == method_of("ideal").client_optimizer
    variant = load_config(
        None, ["variants.near={ base = 'fedavg', client_optimizer = { kind = 'fedprox', mu = 1.0 } }"]
    )
    assert variant.row("near").client_optimizer == FedProx(1.0)
    with pytest.raises(ConfigError, match=r"known: residual, .*fedprox"):
        method_of("fedavg+fedprx")


@pytest.mark.parametrize("make", [lambda: FedProx(-1.0), lambda: FedCM(0.0), lambda: FedCM(1.5)])
def test_knobs_out_of_range(make) -> None:
    with pytest.raises(ConfigError, match="must be a number"):
        make()


def test_a_learner_that_cannot_be_pulled_is_named() -> None:
    steer(object(), 0.0, 0.0, np.zeros(1, np.float32))  # nothing asked for
    with pytest.raises(ConfigError, match="object has no `steer`"):
        steer(object(), 0.1, 0.0, np.zeros(1, np.float32))
