"""The broadcast: versions, what the codec lost, and a model that is the clients' model bit for bit."""

import numpy as np
import pytest
from test_feedback import Noisy

from adagq.client.replica import Replica, receive
from adagq.codecs import QSGD, Float32, decode
from adagq.core.errors import PayloadError
from adagq.core.messages import Broadcast, Sync
from adagq.core.seeds import generator
from adagq.core.vectors import Layout
from adagq.server.broadcast import Broadcaster
from adagq.server.model import GlobalModel
from adagq.server.optimizers import Plain
from toy import LAYOUT


def random(*path: int | str) -> np.ndarray:
    return generator(1, *path).standard_normal(LAYOUT.elements).astype(np.float32)


class Server:
    """A model and its broadcaster, stepping as a loop lets them."""

    def __init__(self, codec=None, layout: Layout = LAYOUT, start: np.ndarray | None = None) -> None:
        start = random("start") if start is None else start
        self.model = GlobalModel(layout, start, np.zeros(layout.buffer_elements, np.float32), Plain())
        self.broadcaster = Broadcaster(codec or Float32(), seed=1)

    def step(self, mean: np.ndarray, round: int, budget: int | None = None, buffers=None) -> Broadcast:
        step = self.model.step(mean, ())
        sent = self.broadcaster.encode(step, round, self.model.layout, budget)
        self.model.move(sent, self.model.buffers if buffers is None else buffers)
        return self.broadcaster.latest

    def sync(self, client: int, round: int) -> Sync:
        return self.broadcaster.sync(client, round, self.model)

    def acknowledge(self, client: int) -> None:
        self.broadcaster.acknowledge(client, self.model.version)

    @property
    def residual(self) -> np.ndarray:
        return self.broadcaster.state["residual"]


@pytest.mark.parametrize("codec", [Float32(), Noisy(0.2), Noisy(4.0)])
def test_clients_hold_the_servers_model(codec) -> None:
    server = Server(codec)
    model = server.model
    replicas: dict[int, Replica | None] = {0: Replica.first(0, model.vector, model.buffers), 1: None}
    server.acknowledge(0)
    for round in range(1, 6):
        server.step(random("mean", round), round, buffers=np.full(3, round, np.float32))
        for client, replica in replicas.items():
            replicas[client] = received = receive(replica, server.sync(client, round + 1))
            server.acknowledge(client)
            assert received.version == model.version == round
            np.testing.assert_array_equal(received.vector, model.vector)
            np.testing.assert_array_equal(received.buffers, model.buffers)
            np.testing.assert_array_equal(received.previous - received.aggregate, received.vector)


def test_residual_of_the_downlink_is_not_lost() -> None:
    """What the model has moved and what is left over are the sum of all means."""
    server = Server(Noisy(0.2))
    start, total = server.model.vector, np.zeros(LAYOUT.elements)
    for round in range(1, 30):
        mean = random("mean", round)
        total += mean
        server.step(mean, round)
    np.testing.assert_allclose(start - server.model.vector + server.residual, total, atol=1e-3)


@pytest.mark.parametrize("budget", [900, 1500, 3000])
def test_broadcast_fills_its_budget_and_tells_what_it_lost(budget: int) -> None:
    layout = Layout.of_sizes([3000, 1000])
    mean = generator(1, "mean").standard_normal(4000).astype(np.float32)
    server = Server(QSGD(levels=15), layout, np.zeros(4000, np.float32))
    sent = server.step(mean, 1, budget)
    assert sent.nbytes == len(server.broadcaster.payloads[-1])
    assert 0.9 * budget < sent.nbytes <= budget
    assert sent.energy == pytest.approx(float(mean @ mean))
    assert sent.error_energy == pytest.approx(float(server.residual @ server.residual))
    assert 0 < sent.error_energy < sent.energy
    # The next one has to carry what this one lost.
    rest = mean + server.residual
    assert server.step(mean, 2, budget).energy == pytest.approx(float(rest @ rest))


def test_more_bytes_lose_less() -> None:
    layout, mean = Layout.of_sizes([4000]), generator(1, "mean").standard_normal(4000).astype(np.float32)
    lost = []
    for budget in (900, 1500, 3000, 6000):
        server = Server(QSGD(), layout, np.zeros(4000, np.float32))
        lost.append(server.step(mean, 1, budget).error_energy)
    assert lost == sorted(lost, reverse=True)


def test_without_a_budget_or_levels_the_codec_stays_as_it_is() -> None:
    mean = random("mean")
    for codec, budget in ((QSGD(levels=15), None), (Float32(), 1)):
        server, plain = Server(codec), Server(codec)
        sent = server.step(mean, 1, budget)
        plain.step(mean, 1)
        assert server.broadcaster.payloads == plain.broadcaster.payloads
        assert sent.nbytes == len(plain.broadcaster.payloads[0])
    assert sent.error_energy == 0.0  # floats lose nothing


def test_who_has_no_model_gets_all_of_it_once() -> None:
    server = Server()
    server.step(random("mean"), 1)
    sync = server.sync(5, 2)
    assert sync.full
    assert not sync.probing
    np.testing.assert_array_equal(decode(sync.payloads[0]), server.model.vector)
    server.acknowledge(5)
    server.step(random("mean", 2), 2)
    assert not server.sync(5, 3).full


def test_who_holds_the_model_gets_nothing() -> None:
    server = Server()
    server.acknowledge(0)
    assert server.sync(0, 1).nbytes == 0


def test_missed_rounds_are_sent_while_they_are_smaller_than_the_model() -> None:
    layout = Layout.of_sizes([1000])
    server = Server(Float32(), layout, np.zeros(1000, np.float32))
    server.acknowledge(0)
    server.step(np.ones(1000, np.float32), 1)
    assert not server.sync(0, 2).full
    server.step(np.ones(1000, np.float32), 2)
    assert server.sync(0, 3).full  # two float32 aggregates are larger than one model
    held = Replica.first(0, np.zeros(1000, np.float32), server.model.buffers)
    payloads = server.broadcaster.payloads
    payloads.appendleft(payloads[0])  # as a small codec would have kept it
    sync = server.sync(0, 3)
    assert (sync.base_version, len(sync.payloads)) == (0, 2)
    np.testing.assert_array_equal(receive(held, sync).vector, server.model.vector)


def test_a_sync_from_another_version_is_refused() -> None:
    server = Server()
    for client in (0, 1):
        server.acknowledge(client)
    server.step(random("mean"), 1)
    server.acknowledge(0)
    server.step(random("mean", 2), 2)
    with pytest.raises(PayloadError, match="from model version 1 to 2; here is 0"):
        receive(Replica.first(0, server.model.vector, server.model.buffers), server.sync(0, 3))
