"""What a simulated client will do next, and when."""

from dataclasses import dataclass, replace

from adagq.core.codec import Arrays
from adagq.core.messages import Arrival, Incident, Receipt, Sync
from adagq.simulation.clock import Visit


@dataclass(frozen=True, slots=True)
class Event:
    """Something that will happen at `seconds`; until its job is done, not before them."""

    seconds: float
    client: int
    arrival: Arrival | None = None  # None while the job is not done, and for a client that is lost
    incident: Incident | None = None
    job: int | None = None
    receipt: Receipt | None = None  # of its update …
    state: Arrays | None = None  # … and the client's state with it, or with an update that is lost

    @property
    def key(self) -> tuple[float, int]:
        return self.seconds, self.client


def without_payloads(sync: Sync) -> Sync:
    """Workers hold the model already: a sync goes to them without its payloads."""
    return replace(sync, payloads=(b"",), buffers=b"")


def diverged(visit: Visit) -> Incident:
    """Return the incident of a client whose training diverged."""
    return Incident(visit.client, visit.round, "diverged", "training left a number that is not finite")
