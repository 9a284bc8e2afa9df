"""Loops without a barrier: the model moves after every few arrivals, and nobody waits for the slowest client.

    step = sum_i n_i d_i u_i / sum_i n_i,      d_i = rate * (1 + staleness_i)^-exponent

n_i are client i's examples; its staleness is how many versions the model moved on since it began to train.

    fedbuff     a step after 10 arrivals (Nguyen et al. 2022); `qafel` is this with 4-bit codecs and feedback both ways
    fedasync    a step after every arrival, rate 0.6 (Xie et al. 2019): w <- w - d u. Mixing whole models,
                w <- (1 - d) w + d w_i, would also take back d of all steps since the client began
    fedsa       semi-asynchronous (Ma et al. 2021): a step after half of the clients; later ones count in the next, with
                weights that add up to 1; a client 5 versions behind is waited for

A step never waits for more than half of the clients that are asked. A client whose update is in the step is posted
again once the model has moved: it would begin with the same model. With `participants` so many train at a time, and a
place that gets free is taken by another client at once. The learning rate decays once per as many arrivals as clients
train at a time: as in a round with a barrier.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from adagq.core.errors import ConfigError
from adagq.core.vectors import FloatVector
from adagq.methods.table import Method
from adagq.rounds.attempt import Attempt, Outcome
from adagq.rounds.backend import Backend
from adagq.rounds.flights import Flight, Flights
from adagq.rounds.loops import LOOPS
from adagq.rounds.schedule import Schedule
from adagq.rounds.state import RoundResult, State, begin
from adagq.rounds.synchronous import Attempted, closed_rounds


@dataclass(frozen=True, slots=True)
class Buffered:
    """Step after `arrivals` updates, each discounted by its staleness; see the module docstring.

    >>> [round(Buffered().discount(staleness), 3) for staleness in (0, 1, 3)]
    [1.0, 0.707, 0.5]
    """

    arrivals: int = 10
    rate: float = 1.0
    exponent: float = 0.5
    normalized: bool = False  # whether the discounts are divided by their mean
    lag: int | None = None  # versions: a client so far behind is waited for

    def __post_init__(self) -> None:
        if self.arrivals < 1 or (self.lag is not None and self.lag < 1):
            raise ConfigError(f"arrivals = {self.arrivals}, lag = {self.lag}: must be at least 1")
        if not 0.0 < self.rate <= 1.0 or self.exponent < 0.0:
            raise ConfigError(
                f"rate = {self.rate}, exponent = {self.exponent}: allowed are 0 < rate <= 1, exponent >= 0"
            )

    def needed(self, places: int) -> int:
        """Return the arrivals of a step where so many clients train at a time.

        >>> Buffered(10).needed(20), Buffered(10).needed(4), Buffered(1).needed(20)
        (10, 2, 1)
        """
        return min(self.arrivals, -(-places // 2))

    def steps_per_round(self, places: int) -> float:
        """Return the steps in which as many updates arrive as clients train at a time."""
        return places / self.needed(places)

    def discount(self, staleness: int) -> float:
        """Return how much of an update counts that is so many versions old."""
        return float(self.rate * (1 + staleness) ** -self.exponent)

    def __call__(
        self, method: Method, backend: Backend, schedule: Schedule, state: State | None = None
    ) -> Iterator[RoundResult]:
        """Run steps, from the start or from `state`."""
        state = state or begin(method, backend, schedule)
        flights = Flights.of(method, backend, replace(schedule, exchanges=1), state)
        yield from closed_rounds(method, backend, schedule, state, lambda _: self._step(flights))

    def _step(self, flights: Flights) -> Attempted:
        """Collect arrivals until there are enough, or nobody is under way any more."""
        state = flights.state
        step = Attempt(flights.method, flights.backend, flights.schedule, state, ())
        present = flights.backend.clients(step.round, flights.schedule.min_clients)
        least = max(flights.schedule.min_clients, flights.schedule.min_updates)
        present = state.exclusions.admitted(present, step.round, least)
        places = min(flights.schedule.participants or len(present), len(present))
        needed = max(self.needed(places), flights.schedule.min_updates)
        arrived: dict[int, Flight] = {}
        flights.fill(step, present, places)
        while flights.flying and (len(arrived) < needed or (self.lag is not None and flights.lag() >= self.lag)):
            if (received := flights.receive(step)) is not None:
                flight, update = received
                arrived[update.client] = flight
                step.intake.discounts[update.client] = self.discount(state.model.version - update.version)
                step.intake.put(update)
            flights.fill(step, present, places)
        outcome = self._close(step, flights, arrived)
        state.loop = flights.to_json()
        return state.control, outcome, step

    def _close(self, step: Attempt, flights: Flights, arrived: dict[int, Flight]) -> Outcome:
        mean = step.intake.close()
        settlement, learnt = flights.settle(step, arrived)
        counted = [arrived[receipt.client] for receipt in settlement.receipts]
        step.syncs, step.tasks = [flight.sync for flight in counted], [flight.task for flight in counted]
        if mean is not None and len(counted) >= max(flights.schedule.min_updates, 1):
            flights.state.usual = step.intake.learnt()
            mean = self._weighted(step, mean)
        else:
            mean = None
        reports = [flight.validator.reports[flight.sync.client] for flight in counted]
        return Outcome(mean, settlement, learnt, tuple(step.validator.incidents), tuple(reports))

    def _weighted(self, step: Attempt, mean: tuple[FloatVector, FloatVector]) -> tuple[FloatVector, FloatVector]:
        """Return the step, and buffers that move towards the clients' by as much as the updates count."""
        vector, buffers = mean
        accepted, discounts = step.intake.accepted, step.intake.discounts
        share = sum(examples * discounts[client] for client, examples in accepted.items()) / sum(accepted.values())
        if self.normalized:
            return np.float32(1 / share) * vector, buffers
        held = step.state.model.buffers
        return vector, buffers if share == 1.0 else held + np.float32(share) * (buffers - held)


LOOPS.add("fedbuff", Buffered(arrivals=10))
LOOPS.add("fedasync", Buffered(arrivals=1, rate=0.6))
LOOPS.add("fedsa", Buffered(arrivals=2**31, normalized=True, lag=5))
