"""What outlives a round, and what a closed round leaves behind."""

from dataclasses import dataclass, field
from math import nan
from typing import Any

from adagq.core.messages import Broadcast, Receipt
from adagq.methods.table import Method
from adagq.rounds.backend import Backend
from adagq.rounds.schedule import Schedule
from adagq.server.broadcast import Broadcaster
from adagq.server.deadlines import Pace
from adagq.server.exclusion import Exclusions
from adagq.server.intake import Usual
from adagq.server.model import GlobalModel
from adagq.server.privacy import Spent

NO_BROADCAST = Broadcast()
NO_PACE = Pace()
NOTHING_USUAL = Usual()
NO_EXCLUSIONS = Exclusions()
NOTHING_SPENT = Spent()


@dataclass
class State:
    """All that outlives a round. `control` is the controller's own frozen state."""

    model: GlobalModel
    broadcaster: Broadcaster
    control: Any
    round: int = 0
    seconds: float = 0.0
    receipts: tuple[Receipt, ...] = ()  # of the last round, those that may be learnt from
    norm: float = nan  # of the last mean update
    server_seconds: float = 0.0
    downloaded: Broadcast = NO_BROADCAST  # the broadcast that the receipts are about
    pace: Pace = NO_PACE
    usual: Usual = NOTHING_USUAL
    exclusions: Exclusions = NO_EXCLUSIONS
    spent: Spent = NOTHING_SPENT
    noise_energy: float = 0.0  # that privacy put into the last mean, as expected
    loop: dict[str, Any] = field(default_factory=dict)  # what a loop of its own kind keeps, as plain JSON values


def begin(method: Method, backend: Backend, schedule: Schedule) -> State:
    """Return the state before the first round: clients that are there make the first model from the seed."""
    vector, buffers = backend.initial()
    model = GlobalModel(backend.layout, vector, buffers, method.optimizer)
    broadcaster = Broadcaster(method.downlink, schedule.seed)
    initial = backend.initial_clients()
    for client in initial:
        broadcaster.acknowledge(client, model.version)
    return State(model, broadcaster, method.controller.init(len(initial)))


@dataclass(frozen=True, slots=True)
class RoundResult:
    """A closed round: its row, its ledger, its incidents, and the state, which the next round will change.

    `decisions` are what clients were asked for: client, codec, byte budget, epochs.
    """

    row: dict[str, Any]
    ledger: list[dict[str, Any]]
    incidents: list[dict[str, Any]]
    state: State
    decisions: tuple[tuple[int, str, int | None, float], ...] = ()
