"""What is learned, in plain fields: data, model, partition, local SGD.

    population = LearningTask(data="fashion-mnist", model="resnet18", width=16, stem="imagenet").build()

A task is small, frozen and hashable: workers get the task and build their own population from it. Building
imports torch; making a task does not.
"""

import math
from functools import partial
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from adagq.client.learner import Population
from adagq.core.errors import DataError
from adagq.core.extras import need
from adagq.core.modules import load_plugin
from adagq.core.seeds import generator
from adagq.core.settings import Flag, Number, Text, Whole, settings
from adagq.data import DataSet, load_data
from adagq.data.files import Array
from adagq.data.partitions import hold_out, partition
from adagq.learners.own_task import own_population

if TYPE_CHECKING:
    from adagq.learners.samples import Samples


Count = Annotated[Whole, Field(ge=1)]


@settings("task")
class LearningTask:
    """One learning task. `seed` draws the partition, the held-out and the test samples, not the model."""

    function: Text | None = None  # "my.py:build" or "module:build": makes model, data and split; `clients` alone counts
    data: Text = "digits"  # the data set
    data_folder: Text | None = None  # where fashion-mnist and cifar10 lie; None: the usual places
    model: Text = "cnn"  # the model that is trained
    width: Count | None = None  # None: the model's own
    stem: Text | None = None  # "cifar" (the default), "imagenet" or, resnet18 only, "stride2"; resnet18 and googlenet
    partition: Text = "sigma_d"  # how unlike the clients' data are: iid, sigma_d, dirichlet, contiguous
    partition_value: Number | None = None  # sigma_d's degree or Dirichlet's alpha; None: 0.5
    clients: Count = 20  # as many as the fleet has
    samples_per_client: Count | None = None  # before holding out; None: as many as the split allows
    test_samples: Count | None = None  # None: the whole test set
    batch_size: Annotated[Whole, Field(ge=2)] = 32  # 2 is the least that BatchNorm can train on
    held_out: Annotated[Number, Field(gt=0, lt=1)] = 0.1  # share of a client's samples that it does not train on
    probe_samples: Count = 256  # at most so many are held out
    momentum: Annotated[Number, Field(ge=0, lt=1)] = 0.0  # of the clients' SGD
    weight_decay: Annotated[Number, Field(ge=0, lt=math.inf)] = 0.0  # of the clients' SGD
    seed: Annotated[Whole, Field(ge=0)] = 0
    plugins: tuple[Text, ...] = ()  # files and modules that register parts: every worker loads them before it builds
    channels_last: Flag = False  # memory format of images: other kernels, so other rows in the last digits
    # Of data that are drawn: `synthetic` and `characters`.
    shape: tuple[Count, ...] | None = None  # of one sample; None: (1, 16, 16) and 32 characters
    classes: Annotated[Whole, Field(ge=2)] = 10  # `synthetic` only
    samples: Count = 4000  # `synthetic` only

    def build(self) -> Population:
        """Load the data, split it, draw a model; or let the user's own function do so."""
        for plugin in self.plugins:
            load_plugin(plugin)
        if self.function is not None:
            return own_population(self.function, self.clients, self.seed)
        need("torch", "torch")
        from adagq.learners.models import build_model
        from adagq.learners.torch_learner import TorchPopulation

        data = load_data(
            self.data,
            self.data_folder,
            shape=self.shape,
            classes=self.classes,
            samples=self.samples,
            seed=self.seed,
        )
        clients, test = self._samples(data)
        build = partial(build_model, self.model, data.shape, data.classes, self.width, self.stem, data.has_tokens)
        return TorchPopulation(
            build,
            clients,
            test,
            batch_size=self.batch_size,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )

    def _samples(self, data: DataSet) -> "tuple[list[tuple[Samples, Samples]], Samples]":
        """Return every client's training and held-out samples, and the common test samples."""
        from adagq.learners.samples import Samples

        normalisation = data.normalisation()

        def samples(inputs: Array, labels: Array) -> Samples:
            return Samples.normalised(inputs, labels, normalisation, self.channels_last)

        shares = partition(
            self.partition,
            self.partition_value,
            data.train_labels,
            self.clients,
            self.seed,
            self.samples_per_client,
        )
        train, test = samples(data.train_inputs, data.train_labels), samples(data.test_inputs, data.test_labels)
        clients = []
        for client, share in enumerate(shares):
            learn, held = hold_out(share, self.held_out, self.probe_samples, self.seed, client)
            if len(learn) < 2:
                raise DataError(
                    f"{self.clients} clients x {len(share)} samples leave {len(learn)} to train on after "
                    f"holding out {len(held)}; BatchNorm needs at least 2"
                )
            clients.append((train.take(learn), train.take(held)))
        if self.test_samples is not None:
            if self.test_samples > len(test):
                raise DataError(f"test_samples: {self.test_samples} asked, {self.data} has {len(test)}")
            order = generator(self.seed, "test").permutation(len(test))
            test = test.take(np.sort(order[: self.test_samples]))
        return clients, test
