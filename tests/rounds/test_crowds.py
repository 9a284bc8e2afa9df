"""Who is asked, who counts and who is waited for: clients that join, lie with all their weight, or never answer."""

from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from statistics import median

import numpy as np
import pytest
from test_synchronous import SCHEDULE, SPEC

from adagq.codecs import Float32, TopK, decode
from adagq.core.messages import Arrival, Sync, Task, Update
from adagq.core.vectors import Layout
from adagq.methods.table import Method, method_of
from adagq.rounds import synchronous
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.fleet.failures import Reliability
from adagq.simulation.processes import open_pool
from hostile import CLIENTS, LIAR, Lie, run
from hostile import SCHEDULE as CROWD
from toy import ToyLearner, ToyPopulation, ToySpec


class Growing(Simulated):
    """Client 3 appears with the first arrival of round 2."""

    def __init__(self, *arguments, **settings) -> None:
        super().__init__(*arguments, **settings)
        self.posts: list[tuple[int, int, Sync | None]] = []
        self.there = (0, 1, 2)

    def clients(self, round: int, least: int) -> tuple[int, ...]:
        return self.there

    def post(self, client: int, sync: Sync | None, task: Task | None, until: float = inf) -> None:
        message = sync or task
        assert message is not None
        self.posts.append((message.round, client, sync))
        super().post(client, sync, task, until)

    def receive(self, until: float) -> Arrival | None:
        if self.posts[-1][0] == 2:
            self.there = (0, 1, 2, 3)
        return super().receive(until)


@pytest.mark.parametrize("exchanges", [1, 2])
def test_who_appears_in_the_middle_of_a_round_is_asked_from_the_next_one_on(exchanges: int) -> None:
    method = method_of("adagq")
    with open_pool(1) as pool:
        pool.prepare(SPEC, SPEC.layout)
        backend = Growing(pool, SPEC.build(), fleets.build(fleets.paper(clients=4), seed=5), method, seed=5)
        closed = list(islice(synchronous(method, backend, replace(SCHEDULE, exchanges=exchanges)), 4))
    assert [one.row["clients"] for one in closed] == [3, 3, 4, 4]
    assert not any(one.incidents for one in closed)
    late = [(round, sync) for round, client, sync in backend.posts if client == 3 and sync is not None]
    assert [(round, sync.full) for round, sync in late] == [(3, True), (4, False)]


def test_a_repeated_round_draws_another_cohort() -> None:
    """One of three sends garbage and one is drawn a round: 0.1 asked the same one until it gave up."""
    garbage = Lie(update=lambda update: [replace(update, payload=b"garbage")])
    schedule = replace(CROWD, participants=1)
    closed = run("fedavg", garbage, 20, schedule, fleets.paper(clients=3), clients=3, liar=1)
    assert [one.row["round"] for one in closed] == list(range(1, 21))
    assert {line["client"] for one in closed for line in one.ledger} == {0, 2}
    repeated = [one for one in closed if one.row["attempts"] > 1]
    assert repeated
    assert all(one.row["refused"] == 1 for one in repeated)
    assert all(one.row["refused"] == 0 for one in closed if one not in repeated)


def sending(change) -> Lie:
    """The liar sends `change` of its honest update."""

    def changed(update: Update) -> list[Update]:
        return (
            [replace(update, payload=Float32().encode(change(decode(update.payload))))] if update.payload else [update]
        )

    return Lie(update=changed)


@pytest.mark.parametrize(
    "lie",
    [sending(lambda u: 100 * u), sending(lambda u: -100 * u), sending(lambda u: np.full_like(u, 1e15))],
    ids=["times 100", "times -100", "constant 1e15"],
)
def test_one_loud_update_of_twenty_is_cut_and_learning_goes_on(lie: Lie) -> None:
    honest, lied = run("fedavg", Lie(), 15), run("fedavg", lie, 15)
    for one in lied:
        assert (one.row["clients"], one.row["refused"], one.row["attempts"]) == (CLIENTS, 0, 1)
        assert {(line["client"], line["kind"]) for line in one.incidents} == {(LIAR, "clamped")}
    assert honest[-1].row["accuracy"] > 0.95
    assert lied[-1].row["accuracy"] == pytest.approx(honest[-1].row["accuracy"], abs=0.04)


@pytest.mark.parametrize(
    ("buffers", "kind"), [([1, 1, 1, -5, 1], "refused"), ([1e6] * 5, "clamped"), ([1, 1, 1, 1, 1e30], "refused")]
)
def test_one_clients_buffers_do_not_move_the_mean(buffers: list[float], kind: str) -> None:
    payload = Float32().encode(np.array(buffers, np.float32))
    honest = run("fedavg", Lie(), 4)
    lied = run("fedavg", Lie(update=lambda update: [replace(update, buffers=payload)]), 4)
    for one in lied:
        assert (LIAR, kind) in {(line["client"], line["kind"]) for line in one.incidents}
    np.testing.assert_allclose(lied[-1].state.model.buffers, honest[-1].state.model.buffers, rtol=0.01)


class Silent(Reliability):
    """Never reports."""

    def fails(self, round: int, attempt: int = 0):
        return "report"


@dataclass(frozen=True)
class LongProbes(ToySpec):
    """Clients that probe for several times as long as they train."""

    def build(self) -> "Probing":
        return Probing(self)


class Probing(ToyPopulation):
    def learner(self, client: int) -> ToyLearner:
        return replace(super().learner(client), held_out=500)


SMALL_STEPS = replace(method_of("adagq"), downlink=TopK(0.01))  # who misses rounds still gets steps, and probes


@pytest.mark.parametrize(
    ("method", "spec"),
    [
        (method_of("adagq"), ToySpec()),
        (SMALL_STEPS, LongProbes(layout=Layout.of_sizes([4000]))),
    ],
    ids=["asked for the whole model's update", "asked for a report in every round"],
)
def test_a_report_that_never_comes_does_not_stretch_the_rounds(method: Method, spec: ToySpec) -> None:
    """The deadline follows what arrived: waiting in vain does not lengthen the next wait.

    The second round is the first that downloads and has no deadline yet; later ones end at 1.5 times its seconds.
    """
    with open_pool(1) as pool:
        pool.prepare(spec, spec.layout)
        backend = Simulated(pool, spec.build(), fleets.build(fleets.paper(clients=4), seed=5), method, seed=5)
        clients = backend.fleet.clients
        backend.fleet = replace(backend.fleet, clients=(replace(clients[0], reliability=Silent()), *clients[1:]))
        closed = list(islice(synchronous(method, backend, SCHEDULE), 20))
    seconds = [one.row["round_seconds"] for one in closed]
    assert max(seconds[2:]) <= 1.5 * seconds[1] * (1 + 1e-4), seconds
    assert max(seconds[3:]) <= seconds[2] * (1 + 1e-4), seconds
    assert all(one.row["failed"] == 1 and one.row["clients"] == 3 for one in closed)
    assert {line["kind"] for one in closed for line in one.incidents} == {"lost"}


@pytest.mark.parametrize("downlink_mbps", [5.0, 0.5])
def test_slow_downloads_make_nobody_late(downlink_mbps: float) -> None:
    """Reports come after most of the round: 0.1 gave them half of it, and no attempt at a round succeeded."""
    closed = run("adagq", Lie(), 8, fleet=fleets.paper(clients=CLIENTS, downlink_mbps=downlink_mbps))
    assert all((one.row["clients"], one.row["attempts"]) == (CLIENTS, 1) and not one.incidents for one in closed)


@pytest.mark.parametrize("exchanges", [1, 2])
@pytest.mark.parametrize("slower", [30, 1000])
@pytest.mark.parametrize("first_deadline_seconds", [inf, 120.0])
def test_a_client_that_is_slow_beyond_measure_is_left_out(
    slower: float, exchanges: int, first_deadline_seconds: float
) -> None:
    """From the third round on, or from the first if a deadline is set for those that cannot derive one.

    The second round is the first that downloads: what a download takes is not known before.
    """
    schedule = replace(CROWD, exchanges=exchanges, first_deadline_seconds=first_deadline_seconds)
    usual, slow = fleets.ClientConfig(count=CLIENTS - 1), fleets.ClientConfig(epoch_seconds=15.5 * slower)
    honest = run("adagq", Lie(), 12, schedule)
    closed = run("adagq", Lie(), 12, schedule, fleets.FleetConfig(client=(usual, slow)))
    derived = closed[2 if first_deadline_seconds == inf else 0 :]
    longest = 15 * median(one.row["round_seconds"] for one in honest)
    assert all(one.row["round_seconds"] < longest for one in derived), [one.row["round_seconds"] for one in closed]
    for one in derived:
        assert [(line["client"], line["kind"]) for line in one.incidents] == [(CLIENTS - 1, "late")]
