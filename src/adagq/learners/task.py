"""What is learned, in plain fields: data, model, partition, local SGD.

    population = TaskSpec(data="fashion-mnist", model="resnet18", width=16, stem="imagenet").build()

A spec is small, frozen and hashable: workers get the spec and build their own population from it. Building
imports torch; making a spec does not.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from adagq.errors import ConfigError, DataError
from adagq.learners.data import load_data
from adagq.learners.partitions import hold_out, partition
from adagq.seeds import generator

if TYPE_CHECKING:
    from adagq.learners.torch_learner import TorchPopulation


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One learning task. `seed` draws the partition, the held-out and the test samples, not the model."""

    data: str = "digits"
    data_folder: str | None = None  # where fashion-mnist and cifar10 lie; None: the usual places
    model: str = "cnn"
    width: int | None = None  # None: the model's own
    stem: str | None = None  # "cifar" (the default) or "imagenet"; resnet18 and googlenet only
    partition: str = "sigma_d"
    partition_value: float | None = None  # sigma_d's degree or Dirichlet's alpha; None: 0.5
    clients: int = 20
    samples_per_client: int | None = None  # before holding out; None: as many as the split allows
    test_samples: int | None = None  # None: the whole test set
    batch_size: int = 32
    held_out: float = 0.1
    probe_samples: int = 256  # at most so many are held out
    momentum: float = 0.0
    weight_decay: float = 0.0
    seed: int = 0
    # `synthetic` only
    shape: tuple[int, int, int] = (1, 16, 16)
    classes: int = 10
    samples: int = 4000

    def __post_init__(self) -> None:
        if self.batch_size < 2:
            raise ConfigError(f"batch_size: {self.batch_size} is below 2, the least that BatchNorm can train on")
        if not 0 <= self.momentum < 1:
            raise ConfigError(f"momentum: {self.momentum} is not in [0, 1)")
        if not 0 <= self.weight_decay < np.inf:
            raise ConfigError(f"weight_decay: {self.weight_decay} is negative or not finite")
        if self.test_samples is not None and self.test_samples < 1:
            raise ConfigError(f"test_samples: {self.test_samples} is below 1")

    def build(self) -> "TorchPopulation":
        """Load the data, split it, draw a model."""
        import torch

        from adagq.learners.models import build_model
        from adagq.learners.torch_learner import Samples, TorchPopulation

        data = load_data(
            self.data,
            self.data_folder,
            shape=self.shape,
            classes=self.classes,
            samples=self.samples,
            seed=self.seed,
        )
        shares = partition(
            self.partition,
            self.partition_value,
            data.train_labels,
            self.clients,
            self.seed,
            self.samples_per_client,
        )
        mean, deviation = (torch.from_numpy(part).view(-1, 1, 1) for part in data.normalisation())

        def samples(images: np.ndarray, labels: np.ndarray) -> Samples:
            index = torch.arange(len(labels))
            return Samples(torch.from_numpy(images), torch.from_numpy(labels), index, mean, deviation)

        train = samples(data.train_images, data.train_labels)
        clients = []
        for client, share in enumerate(shares):
            learn, held = hold_out(share, self.held_out, self.probe_samples, self.seed, client)
            if len(learn) < 2:
                raise DataError(
                    f"{self.clients} clients x {len(share)} samples leave {len(learn)} to train on after "
                    f"holding out {len(held)}; BatchNorm needs at least 2"
                )
            clients.append((train.take(learn), train.take(held)))
        test = samples(data.test_images, data.test_labels)
        if self.test_samples is not None:
            if self.test_samples > len(test):
                raise DataError(f"test_samples: {self.test_samples} asked, {self.data} has {len(test)}")
            order = generator(self.seed, "test").permutation(len(test))
            test = test.take(np.sort(order[: self.test_samples]))
        return TorchPopulation(
            partial(build_model, self.model, data.shape, data.classes, self.width, self.stem),
            clients,
            test,
            batch_size=self.batch_size,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )
