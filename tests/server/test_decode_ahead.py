"""Updates that are decoded ahead add up to the same bits, and a bad one is refused in its turn."""

import numpy as np
import pytest

from adagq.codecs import QSGD
from adagq.core.errors import PayloadError
from adagq.core.messages import Update
from adagq.core.vectors import Layout
from adagq.server.aggregate import Aggregate
from adagq.server.intake import Bounds, Intake, Usual

LAYOUT = Layout.of_sizes([5000])


def update(client, payload=None):
    vector = np.random.default_rng(client).standard_normal(5000).astype(np.float32)
    return Update(client, 1, 10 + client, payload or QSGD(15).encode(vector, client), b"", 15, 1.0, 0.1)


def test_sums_have_the_same_bits_whoever_was_decoded_ahead():
    updates = [update(client) for client in range(7)]
    means = []
    for threads, ahead in ((1, ()), (3, (0, 1, 2)), (2, (4, 6))):
        aggregate = Aggregate(LAYOUT, threads)
        for client in ahead:
            aggregate.decode_ahead(updates[client])
        norms = [aggregate.add_clipped(one, largest=60.0) for one in updates]
        means.append((norms, aggregate.mean().tobytes()))
    assert means[0] == means[1] == means[2]


def test_a_bad_payload_is_refused_when_its_turn_comes():
    aggregate = Aggregate(LAYOUT, 2)
    aggregate.decode_ahead(update(0, b"no payload"))
    aggregate.decode_ahead(update(1))
    with pytest.raises(PayloadError):
        aggregate.add_clipped(update(0, b"no payload"))
    alone = Aggregate(LAYOUT, 1)
    assert aggregate.add_clipped(update(1)) == alone.add_clipped(update(1))
    assert aggregate.mean().tobytes() == alone.mean().tobytes()


def test_an_intake_decodes_what_waits_and_adds_in_client_order():
    def mean_of(order):
        intake = Intake(LAYOUT, range(6), Usual((50.0,), (10,)), Bounds(norm=5.0), print, print)
        for client in order:
            intake.put(update(client))
        return intake.close()[0].tobytes()

    assert mean_of(range(6)) == mean_of((5, 3, 4, 1, 2, 0))
