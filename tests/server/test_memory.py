"""What a round takes of memory beside its payloads: models too large to be decoded ahead stay within four of theirs."""

import math

import numpy as np
import pytest

from adagq.benchmarks.server import peak_models, updates_of
from adagq.codecs import QSGD
from adagq.server.aggregate import MOST_AHEAD


@pytest.mark.parametrize("codec", [QSGD(255), QSGD(7, packing="fixed")], ids=["entropy", "fixed"])
def test_a_round_of_a_large_model_takes_at_most_four_models(codec):
    elements = MOST_AHEAD + 5
    like = np.random.default_rng(1).standard_normal(elements, np.float32)
    updates = updates_of(codec, like, 2)
    peak_models(updates, elements, 2)  # compiles, starts threads
    taken = peak_models(updates, elements, 2)
    if math.isnan(taken):
        pytest.skip("no /proc/self/clear_refs here")
    assert 2.0 < taken <= 4.0  # the sum and a scratch vector at least
