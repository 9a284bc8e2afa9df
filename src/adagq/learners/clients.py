"""The samples of all clients of a task, made when a client is asked for.

A client that never trains costs its two sizes. Data that all lie in memory are shared: a client is its row numbers.
Data that are drawn user by user (`users`) are drawn anew each time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adagq.core.errors import ConfigError, DataError
from adagq.core.seeds import generator
from adagq.data.dataset import DataSet, UserData
from adagq.data.files import Array
from adagq.data.lazy_shares import Indices, Shares
from adagq.data.partitions import NATURAL, held_out_sizes, hold_out, partition
from adagq.learners.samples import Samples

Pair = tuple[Samples, Samples]  # training and held-out


@dataclass(frozen=True)
class Split:
    """How a task cuts its data among clients; the fields are `LearningTask`'s."""

    data: str
    partition: str
    partition_value: float | None
    clients: int
    samples_per_client: int | None
    size_spread: float | None
    test_samples: int | None
    held_out: float
    probe_samples: int
    seed: int
    channels_last: bool


@dataclass(frozen=True, eq=False)
class Rows:
    """Clients that share samples in memory: each has some of their rows."""

    train: Samples
    shares: Shares

    def share(self, client: int) -> tuple[Samples, Indices]:
        return self.train, self.shares[client]


@dataclass(frozen=True, eq=False)
class Drawn:
    """Clients whose samples are drawn anew each time."""

    data: UserData
    normalisation: tuple[Array, Array] | None
    channels_last: bool

    def share(self, client: int) -> tuple[Samples, Indices]:
        whole = Samples.normalised(*self.data.draw(client), self.normalisation, self.channels_last)
        return whole, np.arange(len(whole))


@dataclass(frozen=True, eq=False)
class LazyClients(Sequence[Pair]):
    """Training and held-out samples by client; `examples` and `held_out` are their numbers, known beforehand."""

    source: Rows | Drawn
    split: Split
    examples: Indices
    held_out: Indices

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, client: Any) -> Any:
        if not 0 <= client < len(self):
            raise IndexError(client)
        samples, rows = self.source.share(client)
        learn, held = hold_out(rows, self.split.held_out, self.split.probe_samples, self.split.seed, client)
        return samples.take(learn), samples.take(held)


def clients_of(split: Split, data: DataSet | UserData) -> LazyClients:
    """Return every client's training and held-out samples."""
    normalisation = data.normalisation()
    source: Rows | Drawn
    if isinstance(data, UserData):
        if split.partition != NATURAL:
            raise ConfigError(
                f"task.partition = {split.partition!r}: {data.name} are their own clients; set {NATURAL!r}"
            )
        source, sizes = Drawn(data, normalisation, split.channels_last), data.sizes
    else:
        shares = partition(
            split.partition,
            split.partition_value,
            data.train_labels,
            split.clients,
            split.seed,
            split.samples_per_client,
            split.size_spread or 0.0,
            data.owners,
        )
        train = Samples.normalised(data.train_inputs, data.train_labels, normalisation, split.channels_last)
        source, sizes = Rows(train, shares), shares.sizes
    held_out = held_out_sizes(sizes, split.held_out, split.probe_samples)
    _check(split, sizes, held_out)
    return LazyClients(source, split, sizes - held_out, held_out)


def test_of(split: Split, data: DataSet | UserData) -> Samples:
    """Return the common test samples."""
    test = Samples.normalised(data.test_inputs, data.test_labels, data.normalisation(), split.channels_last)
    if split.test_samples is None:
        return test
    if split.test_samples > len(test):
        raise DataError(f"test_samples: {split.test_samples} asked, {split.data} has {len(test)}")
    order = generator(split.seed, "test").permutation(len(test))
    return test.take(np.sort(order[: split.test_samples]))


def _check(split: Split, sizes: Indices, held_out: Indices) -> None:
    """DataError if some client has too few samples to train on."""
    least = int(sizes.argmin())
    if sizes[least] < 2:
        raise DataError(f"client {least} has {sizes[least]} samples: too few to hold one out and train on another")
    if sizes[least] - held_out[least] < 2:
        raise DataError(
            f"{split.clients} clients x {sizes[least]} samples leave {sizes[least] - held_out[least]} to train on "
            f"after holding out {held_out[least]}; BatchNorm needs at least 2"
        )
