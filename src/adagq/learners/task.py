"""What is learned, in plain fields: data, model, partition, local SGD.

    population = LearningTask(data="fashion-mnist", model="resnet18", width=16, stem="imagenet").build()

A task is small, frozen and hashable: workers get the task and build their own population from it. Building
imports torch; making a task does not.
"""

import math
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from adagq.client.learner import Population
from adagq.core.extras import need
from adagq.core.modules import load_plugin
from adagq.core.settings import Flag, Number, Text, Whole, settings
from adagq.data import DATASETS, DataOptions
from adagq.learners.own_task import own_population

Count = Annotated[Whole, Field(ge=1)]


@settings("task")
class LearningTask:
    """One learning task. `seed` draws the partition, the held-out and the test samples, not the model."""

    function: Text | None = None  # "my.py:build" or "module:build": makes model, data and split; `clients` alone counts
    # digits, fashion-mnist, cifar10, synthetic; text: characters, shakespeare; tables: wine, breast-cancer; users
    data: Text = "digits"
    data_folder: Text | None = None  # where fashion-mnist and cifar10 lie; None: the usual places
    model: Text = "cnn"  # resnet18, googlenet, cnn, linear, mlp, mlp_bn; for text lstm
    width: Count | None = None  # None: the model's own
    stem: Text | None = None  # "cifar" (the default), "imagenet" or, resnet18 only, "stride2"; resnet18 and googlenet
    partition: Text = "sigma_d"  # how unlike the clients' data are: iid, sigma_d, dirichlet, contiguous, natural
    partition_value: Number | None = None  # sigma_d's degree or Dirichlet's alpha; None: 0.5
    clients: Count = 20  # as many as the fleet has
    samples_per_client: Count | None = None  # before holding out; None: as many as the split allows
    # How unequal the shares are: sigma of their log-normal sizes (iid, dirichlet, users). None: all alike; users: 0.8.
    size_spread: Annotated[Number, Field(ge=0, le=3)] | None = None
    test_samples: Count | None = None  # None: the whole test set
    batch_size: Annotated[Whole, Field(ge=2)] = 32  # 2 is the least that BatchNorm can train on
    held_out: Annotated[Number, Field(gt=0, lt=1)] = 0.1  # share of a client's samples that it does not train on
    probe_samples: Count = 256  # at most so many are held out
    momentum: Annotated[Number, Field(ge=0, lt=1)] = 0.0  # of the clients' SGD
    weight_decay: Annotated[Number, Field(ge=0, lt=math.inf)] = 0.0  # of the clients' SGD
    seed: Annotated[Whole, Field(ge=0)] = 0
    plugins: tuple[Text, ...] = ()  # files and modules that register parts: every worker loads them before it builds
    device: Text = "cpu"  # where clients train: auto, cpu, cuda (all of them), cuda:1, … or mps
    # Of forward and backward passes in training: "bfloat16" is mixed precision; weights, sums and updates stay float32.
    precision: Literal["float32", "bfloat16"] = "float32"
    channels_last: Flag = False  # memory format of images: other kernels, so other rows in the last digits
    # Of data that are drawn: `synthetic`, `characters` and `users`.
    shape: tuple[Count, ...] | None = None  # of one sample; None: (1, 16, 16) and 32 characters
    classes: Annotated[Whole, Field(ge=2)] = 10  # `synthetic` and `users`
    samples: Count = 4000  # `synthetic` only

    def build(self) -> Population:
        """Load the data, split it, draw a model; or let the user's own function do so."""
        for plugin in self.plugins:
            load_plugin(plugin)
        if self.function is not None:
            return own_population(self.function, self.clients, self.seed)
        need("torch", "torch")
        from adagq.learners.clients import Split, clients_of, test_of
        from adagq.learners.devices import device_of
        from adagq.learners.models import build_model
        from adagq.learners.torch_learner import TorchPopulation

        data = DATASETS[self.data](
            DataOptions(
                self.data_folder,
                seed=self.seed,
                shape=self.shape,
                classes=self.classes,
                samples=self.samples,
                clients=self.clients,
                samples_per_client=self.samples_per_client,
                size_spread=self.size_spread,
            )
        )
        build = partial(build_model, self.model, data.shape, data.classes, self.width, self.stem, data.has_tokens)
        split = Split(**{name: getattr(self, name) for name in Split.__dataclass_fields__})
        return TorchPopulation(
            build,
            clients_of(split, data),
            test_of(split, data),
            batch_size=self.batch_size,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            device=device_of(self.device),
            precision=self.precision,
        )
