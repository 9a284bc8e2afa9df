"""The server: weights, versions, and a model that is the clients' model bit for bit."""

import numpy as np
import pytest

from adagq.client import Copy, receive
from adagq.codecs import QSGD, Float32, decode
from adagq.errors import PayloadError
from adagq.messages import Update
from adagq.seeds import generator
from adagq.server import Aggregate, Downlink
from adagq.vectors import Layout
from test_feedback import Noisy
from toy import LAYOUT


def update(client: int, examples: int, vector: np.ndarray, buffers: np.ndarray) -> Update:
    payload = Float32().encode(vector)
    return Update(client, 1, examples, payload, Float32().encode(buffers), 0, 1.0, 0.0)


def random(*path: int | str) -> np.ndarray:
    return generator(1, *path).standard_normal(LAYOUT.elements).astype(np.float32)


def downlink(codec=None) -> Downlink:
    return Downlink(LAYOUT, codec or Float32(), 1, random("start"), np.zeros(3, np.float32))


def test_mean_is_weighted_by_examples_over_what_arrived() -> None:
    aggregate = Aggregate(LAYOUT)
    vectors = [random(i) for i in range(3)]
    for i, examples in enumerate((100, 300, 50)):
        aggregate.add(update(i, examples, vectors[i], np.full(3, i, np.float32)))
    mean, buffers = aggregate.mean()
    expected = (100 * vectors[0] + 300 * vectors[1] + 50 * vectors[2]) / 450
    np.testing.assert_allclose(mean, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(buffers, (300 * 1 + 50 * 2) / 450, rtol=1e-6)


def test_a_bad_payload_changes_nothing() -> None:
    aggregate = Aggregate(LAYOUT)
    good = random("good")
    aggregate.add(update(0, 10, good, np.ones(3, np.float32)))
    for bad in (
        update(1, 10, good[:-1], np.ones(3, np.float32)),
        update(1, 10, good, np.ones(2, np.float32)),
        update(1, 0, good, np.ones(3, np.float32)),
        Update(1, 1, 10, b"garbage", b"", 0, 1.0, 0.0),
    ):
        with pytest.raises(PayloadError):
            aggregate.add(bad)
    mean, buffers = aggregate.mean()
    np.testing.assert_allclose(mean, good, rtol=1e-6)
    np.testing.assert_array_equal(buffers, 1)


@pytest.mark.parametrize("codec", [Float32(), Noisy(0.2), Noisy(4.0)])
def test_clients_hold_the_servers_model(codec) -> None:
    server = downlink(codec)
    copies: dict[int, Copy | None] = {0: Copy.first(0, server.vector, server.buffers), 1: None}
    server.acknowledge(0)
    for round in range(1, 6):
        server.step(random("mean", round), np.full(3, round, np.float32), round)
        for client, copy in copies.items():
            copies[client] = received = receive(copy, server.sync(client, round + 1))
            server.acknowledge(client)
            np.testing.assert_array_equal(received.vector, server.vector)
            np.testing.assert_array_equal(received.buffers, server.buffers)
            np.testing.assert_array_equal(received.previous - received.aggregate, received.vector)


def test_residual_of_the_downlink_is_not_lost() -> None:
    """What the model has moved and what is left over are the sum of all means."""
    server = downlink(Noisy(0.2))
    start, total = server.vector, np.zeros(LAYOUT.elements)
    for round in range(1, 30):
        mean = random("mean", round)
        total += mean
        server.step(mean, server.buffers, round)
    assert server.residual is not None
    np.testing.assert_allclose(start - server.vector + server.residual, total, atol=1e-3)


@pytest.mark.parametrize("budget", [900, 1500, 3000])
def test_broadcast_fills_its_budget_and_tells_what_it_lost(budget: int) -> None:
    layout = Layout.of_sizes([3000, 1000])
    mean = generator(1, "mean").standard_normal(4000).astype(np.float32)
    server = Downlink(layout, QSGD(levels=15), 1, np.zeros(4000, np.float32), np.zeros(0, np.float32))
    sent = server.step(mean, server.buffers, 1, budget)
    assert sent.nbytes == len(server.payloads[-1])
    assert 0.9 * budget < sent.nbytes <= budget
    assert sent.energy == pytest.approx(float(mean @ mean))
    assert server.residual is not None
    assert sent.error_energy == pytest.approx(float(server.residual @ server.residual))
    assert 0 < sent.error_energy < sent.energy
    # The next one has to carry what this one lost.
    rest = mean + server.residual
    assert server.step(mean, server.buffers, 2, budget).energy == pytest.approx(float(rest @ rest))


def test_more_bytes_lose_less() -> None:
    layout, mean = Layout.of_sizes([4000]), generator(1, "mean").standard_normal(4000).astype(np.float32)
    lost = []
    for budget in (900, 1500, 3000, 6000):
        server = Downlink(layout, QSGD(), 1, np.zeros(4000, np.float32), np.zeros(0, np.float32))
        lost.append(server.step(mean, server.buffers, 1, budget).error_energy)
    assert lost == sorted(lost, reverse=True)


def test_without_a_budget_or_levels_the_codec_stays_as_it_is() -> None:
    mean = random("mean")
    for codec, budget in ((QSGD(levels=15), None), (Float32(), 1)):
        server = downlink(codec)
        sent = server.step(mean, server.buffers, 1, budget)
        plain = downlink(codec)
        plain.step(mean, plain.buffers, 1)
        assert server.payloads == plain.payloads
        assert sent.nbytes == len(plain.payloads[0])
    assert sent.error_energy == 0.0  # floats lose nothing


def test_who_has_no_model_gets_all_of_it_once() -> None:
    server = downlink()
    server.step(random("mean"), server.buffers, 1)
    sync = server.sync(5, 2)
    assert sync.full
    assert not sync.probing
    np.testing.assert_array_equal(decode(sync.payloads[0]), server.vector)
    server.acknowledge(5)
    server.step(random("mean", 2), server.buffers, 2)
    assert not server.sync(5, 3).full


def test_who_holds_the_model_gets_nothing() -> None:
    server = downlink()
    server.acknowledge(0)
    assert server.sync(0, 1).nbytes == 0


def test_missed_rounds_are_sent_while_they_are_smaller_than_the_model() -> None:
    layout = Layout.of_sizes([1000])
    server = Downlink(layout, Float32(), 1, np.zeros(1000, np.float32), np.zeros(0, np.float32))
    server.acknowledge(0)
    server.step(np.ones(1000, np.float32), server.buffers, 1)
    assert not server.sync(0, 2).full
    server.step(np.ones(1000, np.float32), server.buffers, 2)
    assert server.sync(0, 3).full  # two float32 aggregates are larger than one model
    held = Copy.first(0, np.zeros(1000, np.float32), server.buffers)
    server.payloads.appendleft(server.payloads[0])  # as a small codec would have kept it
    sync = server.sync(0, 3)
    assert (sync.base_version, len(sync.payloads)) == (0, 2)
    np.testing.assert_array_equal(receive(held, sync).vector, server.vector)


def test_a_sync_from_another_version_is_refused() -> None:
    server = downlink()
    for client in (0, 1):
        server.acknowledge(client)
    server.step(random("mean"), server.buffers, 1)
    server.acknowledge(0)
    server.step(random("mean", 2), server.buffers, 2)
    with pytest.raises(PayloadError, match="from model version 1 to 2; here is 0"):
        receive(Copy.first(0, server.vector, server.buffers), server.sync(0, 3))
