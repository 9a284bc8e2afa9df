"""The samples of each client as a sequence that makes a client's indices when they are asked for.

    shares = iid(labels, clients=100_000, seed=0)
    shares.sizes                # samples of every client, one array
    shares[4711]                # the indices of one client's samples

A client that is never asked for costs its place in a few columns: bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from adagq.core.errors import ConfigError
from adagq.core.seeds import generator

Indices: TypeAlias = NDArray[np.int64]
LEAST = 4  # samples of the smallest share: some to train on, one to hold out


class Shares(Protocol):
    """Sample indices by client."""

    @property
    def sizes(self) -> Indices:
        """Samples of every client."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, client: int) -> Indices: ...

    def __iter__(self) -> Iterator[Indices]: ...


@dataclass(frozen=True, eq=False)
class Cut:
    """Pieces of one order of the samples; of the samples as they lie if there is none."""

    order: Indices | None
    starts: Indices
    sizes: Indices

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Indices]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, client: int) -> Indices:
        start, size = int(self.starts[client]), int(self.sizes[client])
        if self.order is None:
            return np.arange(start, start + size)
        return self.order[start : start + size].astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class Dealt:
    """So many samples of each class for each client, from shuffled classes."""

    classes: tuple[Indices, ...]  # the samples of each class, shuffled
    ends: NDArray[np.int32]  # (clients, classes): where a client's samples of a class end
    seed: int

    @classmethod
    def of(cls, labels: Indices, counts: NDArray[np.int64], seed: int) -> "Dealt":
        """Hand out `counts` samples, (clients, classes), class by class in the order of the clients."""
        ends = counts.cumsum(0)
        classes = tuple(
            generator(seed, "partition", "class", label).permutation(np.flatnonzero(labels == label))[:most]
            for label, most in enumerate(ends[-1].tolist())
        )
        return cls(classes, ends.astype(np.int32), seed)

    @property
    def sizes(self) -> Indices:
        sizes: Indices = np.diff(self.ends.sum(1, dtype=np.int64), prepend=0)
        return sizes

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[Indices]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, client: int) -> Indices:
        if not -len(self) <= client < len(self):
            raise IndexError(client)
        client %= len(self)
        ends = self.ends[client]
        starts = self.ends[client - 1] if client else np.zeros_like(ends)
        parts = [of[start:end] for of, start, end in zip(self.classes, starts, ends, strict=True)]
        return generator(self.seed, "partition", "client", client).permutation(np.concatenate(parts))


def spread_sizes(clients: int, share: int, spread: float, seed: int, least: int = LEAST) -> Indices:
    """Return sizes of shares that add up to `clients * share` at most: log-normal of this sigma, all alike if it is 0.

    >>> spread_sizes(3, 20, 0.0, seed=1), int(spread_sizes(1000, 20, 1.0, seed=1).sum()) <= 20_000
    (array([20, 20, 20]), True)
    """
    if spread < 0:
        raise ConfigError(f"size_spread = {spread:g}: must be at least 0")
    if spread == 0:
        return np.full(clients, share)
    least = min(least, share)
    weights = np.exp(spread * generator(seed, "partition", "sizes").standard_normal(clients))
    spare = clients * (share - least)
    sizes: Indices = least + np.floor(weights / weights.sum() * spare).astype(np.int64)
    return sizes
