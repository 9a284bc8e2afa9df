"""Aggregates that belong to a method: what a row of the table needs in place of the mean.

majority   the sign that most updates have, entry by entry, without weights      (signSGD: Bernstein et al. 2019)
fair       the mean on as many entries as a client sends, every client's largest (Han, Wang and Leung 2020)
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from adagq.core.vectors import FloatVector
from adagq.server.robust import AGGREGATES, Held

NEVER = np.iinfo(np.int64).max


def majority(held: Held) -> FloatVector:
    """The sign of most updates times the median magnitude of an entry; a tie is + at even entries, - at odd ones.

    Every client has one vote, whatever its examples. One bit is broadcast, so there is no room for a third value.
    """
    elements = held.layout.elements
    votes = np.empty(elements, np.float32)
    for entries, table in held.tables():
        votes[entries] = np.sign(table).sum(axis=0)
    broken = np.where(np.arange(elements) % 2, np.float32(-1), np.float32(1))
    magnitude = float(np.median(held.norms)) / max(elements, 1) ** 0.5
    return np.float32(magnitude) * np.sign(np.where(votes == 0, broken, votes))


def fair(held: Held) -> FloatVector:
    """The weighted mean on k entries, k the most that a client sent: all clients' largest, then second largest, …"""
    elements = held.layout.elements
    places, sizes, most = np.full(elements, NEVER), np.zeros(elements, np.float32), 0
    for row in held.rows():
        sent = np.flatnonzero(row)
        magnitudes = np.abs(row[sent])
        order = sent[np.argsort(-magnitudes, kind="stable")]
        places[order] = np.minimum(places[order], np.arange(order.size))
        sizes[sent] = np.maximum(sizes[sent], magnitudes)
        most = max(most, sent.size)
    total = sum(held.examples)
    mean = held.weighted([examples / total for examples in held.examples])
    chosen = chosen_entries(places, sizes, most)
    out = np.zeros(elements, np.float32)
    out[chosen] = mean[chosen]
    return out


def chosen_entries(places: NDArray[np.int64], sizes: FloatVector, count: int) -> NDArray[np.int64]:
    """Return `count` entries by the best place that a client gave them, the larger first.

    >>> chosen_entries(np.array([1, 0, 1, 2]), np.array([5.0, 1.0, 9.0, 3.0], np.float32), 2)
    array([1, 2])
    """
    order = np.lexsort((-sizes, places))[:count]
    return np.sort(order[places[order] < NEVER])


for _name, _rule in {"majority": majority, "fair": fair}.items():
    AGGREGATES.add(_name, partial(Held, _rule))
