"""A round of many updates: the same bits on any number of threads, and memory that does not grow with them."""

import numpy as np
import pytest

from adagq.benchmarks.codecs import layered
from adagq.benchmarks.server import measure, updates_of
from adagq.codecs import QSGD, Codec, Float16, Float32, TopK
from adagq.core.vectors import Layout
from adagq.server.aggregate import Aggregate

ELEMENTS = 600_000  # several blocks, and several segments of the entropy coder


@pytest.mark.parametrize(
    "codec", [Float32(), Float16(), QSGD(7, packing="fixed"), QSGD(4095, rounding="dither"), TopK(0.1)]
)
def test_sums_do_not_depend_on_threads(codec: Codec) -> None:
    updates = updates_of(codec, layered(ELEMENTS))[:3]
    sums = []
    for threads in (1, 2, 3):
        aggregate = Aggregate(Layout.of_sizes([ELEMENTS]), threads)
        for update in updates:
            aggregate.add(update)
        sums.append(aggregate.mean()[0])
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])


def test_memory_does_not_grow_with_the_updates() -> None:
    updates = updates_of(QSGD(rounding="dither"), layered(100_000))
    load = measure(updates, 100_000, count=300, threads=2)
    assert load.growth_bytes < 2_000_000
    assert load.updates_per_second > 0
