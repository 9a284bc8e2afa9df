"""A federation of twenty in which one client lies: what it sends is changed on its way to the loop."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from adagq import fleet as fleets
from adagq.backends.processes import open_pool
from adagq.backends.simulated import Simulated
from adagq.federation import Closed, Schedule
from adagq.messages import Closing, Report, Update
from adagq.methods import Method, method_of
from adagq.rounds import federate
from adagq.seeds import generator
from adagq.vectors import Layout
from toy import ToyLearner, ToyPopulation, ToySpec

CLIENTS, LIAR = 20, 7
LAYOUT = Layout.of({"weight": np.zeros((50, 40), np.float32), "bn.running_mean": np.zeros(3, np.float32)})
SCHEDULE = Schedule(seed=5, clients=CLIENTS, learning_rate=0.2)


@dataclass(frozen=True)
class CrowdSpec(ToySpec):
    """Every client pulls towards a vector of its own, near a common one: updates are not all alike."""

    clients: int = CLIENTS
    layout: Layout = LAYOUT

    def build(self) -> "Crowd":
        return Crowd(self)


class Crowd(ToyPopulation):
    def learner(self, client: int) -> ToyLearner:
        offset: Any = generator(7, "centre", client).normal(0, 0.5, self.layout.elements).astype(np.float32)
        return ToyLearner(offset, 100, self.layout)


@dataclass(frozen=True)
class Lie:
    """What the liar makes of its messages. Each may become several, or none."""

    report: Callable[[Report], Iterable[Report]] = lambda report: [report]
    update: Callable[[Update], Iterable[Update]] = lambda update: [update]
    receipt: Callable[[Any], Any] = lambda receipt: receipt


class Tampered(Simulated):
    """The simulator with one liar in it."""

    lie = Lie()

    def sync(self, syncs, deadline=float("inf")):
        honest = super().sync(syncs, deadline)
        return [said for one in honest for said in (self.lie.report(one) if one.client == LIAR else [one])]

    def work(self, tasks, deadline=float("inf")) -> Iterator[Update]:
        for update in super().work(tasks, deadline):
            yield from self.lie.update(update) if update.client == LIAR else [update]

    def close(self) -> Closing:
        closing = super().close()
        receipts = tuple(self._told(receipt) for receipt in closing.receipts)
        return replace(closing, receipts=receipts)

    def _told(self, receipt):
        if receipt.client != LIAR:
            return receipt
        # What the backend writes down is what the client said of its update.
        blank = Update(LIAR, receipt.round, 1, b"", b"", receipt.levels, receipt.energy, receipt.error_energy)
        said = next(iter(self.lie.update(replace(blank, examples=100, rate_bits=receipt.rate_bits))), blank)
        names = ("examples", "levels", "energy", "error_energy", "rate_bits")
        return self.lie.receipt(replace(receipt, **{name: getattr(said, name) for name in names}))


def run(name: str | Method, lie: Lie, rounds: int, schedule: Schedule = SCHEDULE) -> list[Closed]:
    method = method_of(name) if isinstance(name, str) else name
    spec = CrowdSpec()
    with open_pool(1) as pool:
        pool.prepare(spec, spec.layout)
        built = fleets.build(fleets.paper(clients=CLIENTS), seed=5)
        backend = Tampered(pool, spec.build(), built, method, seed=5, payload_scale=5000.0)
        backend.lie = lie
        return list(islice(federate(method, backend, schedule), rounds))
