"""A federation of twenty in which one client lies: what it sends is changed on its way to the loop."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from adagq.core.messages import Arrival, Report, Settlement, Update
from adagq.core.seeds import generator
from adagq.core.vectors import Layout
from adagq.methods.table import Method, method_of
from adagq.rounds import LOOPS, RoundResult, Schedule
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.processes import open_pool
from toy import ToyLearner, ToyPopulation, ToySpec

CLIENTS, LIAR = 20, 7
LAYOUT = Layout.of(
    {
        "weight": np.zeros((50, 40), np.float32),
        "bn.running_mean": np.zeros(3, np.float32),
        "bn.running_var": np.zeros(2, np.float32),
    }
)
SCHEDULE = Schedule(seed=5, learning_rate=0.2)
FLEET = fleets.paper(clients=CLIENTS)


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
    liar = LIAR

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._arrived: deque[Arrival] = deque()

    def receive(self, until: float) -> Arrival | None:
        while not self._arrived:
            arrival = super().receive(until)
            if arrival is None or arrival.client != self.liar:
                return arrival
            self._arrived.extend(self._changed(arrival))
        return self._arrived.popleft()

    def settle(self) -> Settlement:
        settlement = super().settle()
        receipts = tuple(self._claimed(one) if one.client == self.liar else one for one in settlement.receipts)
        return replace(settlement, receipts=receipts)

    def _changed(self, arrival: Arrival) -> list[Arrival]:
        """Return what the liar makes of an arrival: its last report travels with the first update, as it came."""
        if arrival.incident is not None:
            return [arrival]
        reports = list(self.lie.report(arrival.report)) if arrival.report is not None else []
        updates = list(self.lie.update(arrival.update)) if arrival.update is not None else []
        together = [(reports.pop() if reports else None, updates.pop(0))] if updates else []
        messages = [*((report, None) for report in reports), *together, *((None, update) for update in updates)]
        return [replace(arrival, report=report, update=update) for report, update in messages]

    def _claimed(self, receipt: Any) -> Any:
        """Return the liar's receipt: what the backend writes down is what the client said of its update."""
        blank = Update(self.liar, receipt.round, 1, b"", b"", receipt.levels, receipt.energy, receipt.error_energy)
        said = next(iter(self.lie.update(replace(blank, examples=100, rate_bits=receipt.rate_bits))), blank)
        names = ("examples", "levels", "energy", "error_energy", "rate_bits")
        return self.lie.receipt(replace(receipt, **{name: getattr(said, name) for name in names}))


def run(
    name: str | Method,
    lie: Lie,
    rounds: int,
    schedule: Schedule = SCHEDULE,
    fleet: fleets.FleetConfig = FLEET,
    clients: int = CLIENTS,
    liar: int = LIAR,
) -> list[RoundResult]:
    """Run these rounds with a liar among the clients."""
    method = method_of(name) if isinstance(name, str) else name
    spec = CrowdSpec(clients=clients)
    with open_pool(1) as pool:
        pool.prepare(spec, spec.layout)
        backend = Tampered(pool, spec.build(), fleets.build(fleet, seed=5), method, seed=5, payload_scale=5000.0)
        backend.lie, backend.liar = lie, liar
        return list(islice(LOOPS[method.loop](method, backend, schedule, None), rounds))
