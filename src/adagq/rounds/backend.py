"""What a backend must offer: it delivers messages, and loops decide.

A backend carries messages to clients, near or far, and hands over what comes back in order of time. It knows the clock;
it does not know what a round is. One primitive carries every loop:

    backend.post(client, sync, task)        # one of them, or both together in one message
    backend.receive(until)                  # the next arrival, or None when `until` has come

A synchronous round posts to its cohort and receives until all have answered or its deadline has come; a loop without a
barrier posts to whoever is free and steps the model after every few arrivals. A backend may hand over anything that
arrived: the loop validates it.
"""

from collections.abc import Mapping
from math import inf
from typing import Any, Protocol

from numpy.typing import NDArray

from adagq.core.messages import Arrival, Incident, Settlement, Sync, Task
from adagq.core.vectors import FloatVector, Layout


class Backend(Protocol):
    """Clients and the clock."""

    @property
    def layout(self) -> Layout: ...

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        ...

    def initial(self) -> tuple[FloatVector, FloatVector]:
        """Return the first model."""
        ...

    def initial_clients(self) -> tuple[int, ...]:
        """Return the clients that make the first model themselves, from the run's seed."""
        ...

    def clients(self, round: int, least: int) -> tuple[int, ...]:
        """Return the clients that are there now, in order; wait until there are `least` of them."""
        ...

    def under_way(self) -> frozenset[int]:
        """Return the clients that were posted something and may still answer, also after a restore."""
        ...

    def post(self, client: int, sync: Sync | None, task: Task | None, until: float = inf) -> None:
        """Send one message, void after the second `until`. A client has at most one sync and one task under way."""
        ...

    def receive(self, until: float) -> Arrival | None:
        """Return the next arrival by time; None when the clock has come to `until`, or nobody is left to answer."""
        ...

    def abandon(self, client: int, round: int) -> Incident:
        """Stop waiting for a client; return what is known of why it did not deliver."""
        ...

    def settle(self) -> Settlement:
        """Account for the seconds since the last call, once what arrived is added up and the model has moved."""
        ...

    def evaluate(self, vector: FloatVector, buffers: FloatVector) -> tuple[float, float]:
        """Return (accuracy, loss) on the common test set."""
        ...

    def checkpoint(self) -> Mapping[str, NDArray[Any]]:
        """Return what the next round needs beyond the loop's state."""
        ...

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint."""
        ...
