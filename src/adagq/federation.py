"""What a run is made of: where its clients are (`Backend`), who trains when (`Schedule`), what lasts (`State`).

`rounds` runs them; `checkpoint` and `run_directory` keep the state and what every round left behind.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from typing import Any, Protocol

from adagq.deadlines import Pace, Patience
from adagq.messages import Broadcast, Closing, Receipt, Report, Sync, Task, Update
from adagq.seeds import generator
from adagq.server import Downlink
from adagq.vectors import FloatVector, Layout

NO_BROADCAST = Broadcast()
NO_PACE = Pace()


class Backend(Protocol):
    """Runs clients, near or far. It may return fewer reports than syncs and fewer updates than tasks.

    Whatever arrived in time may be handed over: the loop screens it. Deadlines are seconds since the round began,
    inf for none; who had not delivered by then is left behind, and `close` names them. A round that is repeated has
    the same number: every call of `sync` or `exchange` begins an attempt.
    """

    @property
    def layout(self) -> Layout: ...

    def initial(self) -> tuple[FloatVector, FloatVector]:
        """Return the first model, which clients that are there from the start make from the run's seed."""
        ...

    def sync(self, syncs: Sequence[Sync], deadline: float) -> Iterable[Report]: ...

    def work(self, tasks: Sequence[Task], deadline: float) -> Iterator[Update]:
        """Yield updates as they may be added, in an order that does not depend on the machine."""
        ...

    def exchange(
        self, syncs: Sequence[Sync], tasks: Sequence[Task], deadline: float
    ) -> Iterator[tuple[Report, Update]]:
        """Do both at once: the task travels with the sync, the report with the update."""
        ...

    def close(self) -> Closing:
        """End the round once the updates are added up."""
        ...

    def evaluate(self, vector: FloatVector, buffers: FloatVector) -> tuple[float, float]:
        """Return (accuracy, loss) on the common test set."""
        ...


@dataclass(frozen=True)
class Schedule:
    """Who takes part when, and how fast the clients learn."""

    seed: int
    clients: int
    participants: int = 0  # sampled per round; 0 = all
    learning_rate: float = 0.01
    decay: float = 0.995  # of the learning rate, per round
    joins: Mapping[int, int] = field(default_factory=dict)  # client -> first round it is there; 1 if not named
    exchanges: int = 2  # a round; with 1 tasks travel with syncs, decided before this round's reports
    deadline_seconds: float | None = None  # of every round; None derives it from recent rounds
    deadline_factor: float = 1.5
    first_deadline_seconds: float = inf  # while there is nothing to derive it from
    min_updates: int = 1  # a round with fewer is repeated
    norm_bound: float | None = None  # an update's norm, times the median of recent ones: beyond it is refused
    weight_bound: float = 10.0  # a client's examples, times the median: more do not count

    @property
    def patience(self) -> Patience:
        return Patience(self.deadline_seconds, self.deadline_factor, self.first_deadline_seconds)

    def cohort(self, round: int) -> tuple[int, ...]:
        """Return the clients of this round, in order."""
        present = [client for client in range(self.clients) if self.joins.get(client, 1) <= round]
        if not 0 < self.participants < len(present):
            return tuple(present)
        drawn = generator(self.seed, "cohort", round).choice(present, self.participants, replace=False)
        return tuple(sorted(int(client) for client in drawn))

    def founders(self) -> tuple[int, ...]:
        """Return the clients that are there from the start."""
        return tuple(client for client in range(self.clients) if self.joins.get(client, 1) <= 1)

    def rate(self, round: int) -> float:
        return float(self.learning_rate * self.decay ** (round - 1))


@dataclass
class State:
    """All that outlives a round. `control` is the controller's own frozen state."""

    downlink: Downlink
    control: Any
    round: int = 0
    seconds: float = 0.0
    receipts: tuple[Receipt, ...] = ()  # of the last round, those that may be learnt from
    norm: float = nan
    server_seconds: float = 0.0
    broadcast: Broadcast = NO_BROADCAST  # the latest
    downloaded: Broadcast = NO_BROADCAST  # the one that the receipts are about
    attempt: int = 0  # vain ones at the round under way; 0 at a round boundary
    pace: Pace = NO_PACE
    norms: tuple[float, ...] = ()  # of updates that were accepted lately; kept only where they are asked for
    wary: bool = False  # the sum was not finite once: look at every update's norm from then on


@dataclass(frozen=True, slots=True)
class Closed:
    """A finished round: its row, its ledger, its incidents, and the state, which the next round will change."""

    row: dict[str, Any]
    ledger: list[dict[str, Any]]
    incidents: list[dict[str, Any]]
    state: State
