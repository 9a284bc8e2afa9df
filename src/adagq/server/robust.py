"""AGGREGATES: what a round makes of its updates; the mean, and rules that a minority of bad clients cannot steer.

    mean           weighted by examples, added up as payloads arrive: `aggregate.Aggregate`
    clipped        the mean of updates cut to the round's median norm, weights cut to the median weight
    trimmed-mean   entry by entry, without the f largest and the f smallest numbers            (Yin et al. 2018)
    median         entry by entry                                                              (Yin et al. 2018)
    krum           the mean of the n - f updates nearest to their neighbours: multi-Krum       (Blanchard et al. 2017)

f is `byzantine_share` of the n updates, rounded down. All but the first two ignore examples: a weight is a claim. These
rules need a round's updates together. Payloads are small, so they are held as they came and decoded into a table of n
rows and as many columns as fit into TABLE_BYTES, or into the memory of MODELS models where that is more. If one table
holds the whole round, each payload is decoded twice: once to be checked, once into the table. Else once more per table,
since a payload is decoded whole: n / MODELS times for a large model.

Another package adds a rule by an entry point of the group "adagq.aggregates": a callable that takes the layout and the
share, and returns a `Sum`.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.decoding import decode_into
from adagq.core.errors import PayloadError
from adagq.core.machine import cores
from adagq.core.messages import Update
from adagq.core.registry import Registry
from adagq.core.vectors import FloatVector, Layout
from adagq.server.aggregate import Aggregate, norm_of

TABLE_BYTES: Final = 64 * 2**20
MODELS: Final = 4
Table = NDArray[np.float32]  # a row per update, a column per entry


class Sum(Protocol):
    """What updates are added to; a payload that may not be decoded raises `PayloadError` and changes nothing."""

    reference: FloatVector | None  # the last broadcast step, for payloads that build on it

    def add(self, update: Update, max_bytes: int | None = None, discount: float = 1.0) -> None: ...

    def add_clipped(
        self, update: Update, largest: float = math.inf, max_bytes: int | None = None, discount: float = 1.0
    ) -> float:
        """Add an update, scaled down to the norm `largest` if it is larger; return the norm that it came with.

        With a discount it counts that much of itself.
        """
        ...

    def mean(self) -> FloatVector:
        """Return what the model moves by, once all updates are added."""
        ...


AGGREGATES: Registry[Callable[[Layout, float], Sum]] = Registry("aggregate", group="adagq.aggregates")


class Held:
    """A round's updates, checked and held as payloads, until a rule makes one vector of them."""

    def __init__(self, rule: Callable[["Held"], FloatVector], layout: Layout, byzantine_share: float) -> None:
        self.layout = layout
        self._rule = rule
        self.reference: FloatVector | None = None
        self._share = byzantine_share
        self._updates: list[tuple[Update, float, float]] = []  # with its scale, and its norm once scaled

    def add(self, update: Update, max_bytes: int | None = None, discount: float = 1.0) -> None:
        self.add_clipped(update, math.inf, max_bytes, discount)

    def add_clipped(
        self, update: Update, largest: float = math.inf, max_bytes: int | None = None, discount: float = 1.0
    ) -> float:
        if update.examples <= 0:
            raise PayloadError(f"client {update.client}: {update.examples} examples, at least 1 is needed")
        norm = norm_of(update, self.layout, max_bytes, self.reference)
        if not math.isfinite(norm):
            raise PayloadError("its norm is too large for float32")
        scale = discount * (min(1.0, largest / norm) if norm > 0 else 1.0)
        self._updates.append((update, scale, scale * norm))
        return norm

    def mean(self) -> FloatVector:
        self._updates.sort(key=lambda held: held[0].client)  # whoever was faster
        return self._rule(self)

    def __len__(self) -> int:
        return len(self._updates)

    @property
    def norms(self) -> list[float]:
        return [norm for _, _, norm in self._updates]

    @property
    def examples(self) -> list[int]:
        return [update.examples for update, _, _ in self._updates]

    def byzantine(self, most: int) -> int:
        """Return f, how many of the updates may be bad, at most `most`."""
        return max(0, min(int(self._share * len(self) + 1e-9), most))

    def weighted(self, weights: list[float]) -> FloatVector:
        """Return the sum of the updates times these weights, which add up to one; payloads of weight 0 stay closed."""
        total = np.zeros(self.layout.elements, np.float32)
        for (update, scale, _), weight in zip(self._updates, weights, strict=True):
            if weight > 0:
                decode_into(update.payload, total, weight * scale, cores(), reference=self.reference)
        return total

    def rows(self) -> Iterator[FloatVector]:
        """Yield every update whole, in the order of the clients; the memory is used again."""
        row = np.empty(self.layout.elements, np.float32)
        for update, scale, _ in self._updates:
            row[:] = 0
            decode_into(update.payload, row, scale, cores(), reference=self.reference)
            yield row

    def tables(self) -> Iterator[tuple[slice, Table]]:
        """Yield ranges of entries and what the updates hold there, one row each; the memory is used again."""
        elements, rows = self.layout.elements, len(self)
        width = min(elements, max(TABLE_BYTES, MODELS * 4 * elements) // (4 * rows))
        table = np.empty((rows, width), np.float32)
        scratch = None if width == elements else np.empty(elements, np.float32)
        for first in range(0, elements, max(width, 1)):
            entries = slice(first, min(first + width, elements))
            for row, (update, scale, _) in enumerate(self._updates):
                whole = table[row] if scratch is None else scratch
                whole[:] = 0
                decode_into(update.payload, whole, scale, cores(), reference=self.reference)
                if scratch is not None:
                    table[row, : entries.stop - first] = scratch[entries]
            yield entries, table[:, : entries.stop - first]


def clipped(held: Held) -> FloatVector:
    """The mean of updates cut to the round's median norm, weights cut to the median weight."""
    usual_norm, usual_examples = np.median(held.norms), np.median(held.examples)
    weights = np.minimum(held.examples, usual_examples)
    weights /= weights.sum()
    scales = [min(1.0, usual_norm / norm) if norm > 0 else 1.0 for norm in held.norms]
    return held.weighted([float(weight * scale) for weight, scale in zip(weights, scales, strict=True)])


def trimmed_mean(held: Held) -> FloatVector:
    """Entry by entry the mean without the f largest and the f smallest numbers."""
    out = np.empty(held.layout.elements, np.float32)
    cut = held.byzantine(most=(len(held) - 1) // 2)
    for entries, table in held.tables():
        table.sort(axis=0)
        out[entries] = table[cut : len(held) - cut].mean(axis=0)
    return out


def coordinate_median(held: Held) -> FloatVector:
    """Entry by entry the median."""
    out = np.empty(held.layout.elements, np.float32)
    for entries, table in held.tables():
        out[entries] = np.median(table, axis=0)
    return out


def krum(held: Held) -> FloatVector:
    """The mean of the n - f updates whose n - f - 2 nearest neighbours are nearest; of fewer than 3 all count."""
    count = len(held)
    bad = held.byzantine(most=(count - 3) // 2)
    distances = np.zeros((count, count))
    if bad:
        for _, table in held.tables():
            for row in range(count - 1):  # no matrix product: its bits may depend on the number of threads
                apart = table[row + 1 :] - table[row]
                distances[row, row + 1 :] += np.einsum("ij,ij->i", apart, apart, dtype=np.float64)
    distances += distances.T
    nearest = np.sort(distances, axis=1)[:, 1 : count - bad - 1]  # the first is its own, 0
    chosen = np.argsort(nearest.sum(axis=1), kind="stable")[: count - bad]
    return held.weighted([1.0 / len(chosen) if row in chosen else 0.0 for row in range(count)])


RULES = {"clipped": clipped, "trimmed-mean": trimmed_mean, "median": coordinate_median, "krum": krum}
FOR_ANY_ROW = ("mean", *RULES)  # others belong to a method (`choosing`)
AGGREGATES.add("mean", lambda layout, byzantine_share: Aggregate(layout))
for _name, _rule in RULES.items():
    AGGREGATES.add(_name, partial(Held, _rule))
