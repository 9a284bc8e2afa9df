"""The contract every controller keeps.

A controller is a frozen value with pure methods over a frozen state; no I/O, no clock, no torch:

    state = controller.init(clients)                     # clients: how many
    state = controller.observe(state, facts)             # step 3b of every round, before choose
    choices = controller.choose(state, cohort, codec)    # {client: Choice} for this round's uploads
    probes = controller.probe(state, cohort, codec)      # {client: (codec, codec)} for step 1 of the *next* round
    state.to_json() / controller.from_json(data)         # for checkpoints; floats survive exactly

`codec` is the method's own: a choice names the codec that a client is to use. `choose` and `probe` depend on the state
only; the loop calls them after `observe`. Facts come from the
network: a controller learns from what is complete and plausible and skips the rest, so that no reply makes
its state NaN, negative or stuck.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from adagq.core.codec import Codec, Leveled
from adagq.core.messages import Choice, Facts

# Beyond these a reply is a broken clock or a diverged model, and would alone rule every mean and maximum.
MAX_SECONDS = 1e7
MAX_LOSS = 1e6


Pair = tuple[Codec, Codec]


class ControlState(Protocol):
    """Frozen; holds all that a controller remembers."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; unknown numbers are null, since JSON has no NaN."""
        ...


StateT = TypeVar("StateT", bound=ControlState)


class Controller(Protocol[StateT]):
    """A frozen value with pure methods; see the module docstring."""

    def init(self, clients: int) -> StateT: ...

    def observe(self, state: StateT, facts: Facts) -> StateT: ...

    def choose(self, state: StateT, cohort: Sequence[int], codec: Codec) -> dict[int, Choice]: ...

    def probe(self, state: StateT, cohort: Sequence[int], codec: Codec) -> dict[int, Pair]:
        """Return the two codecs that each client re-quantizes the next aggregate with; nothing for who need not."""
        ...

    def broadcast(self, state: StateT, elements: int) -> int | None:
        """Return how many bytes the aggregate's payload may take; None leaves its codec as it is."""
        ...

    def from_json(self, data: Mapping[str, Any]) -> StateT: ...


def at_levels(codec: Codec, levels: int) -> Codec:
    """Return the codec with so many levels; itself if it has none, or if `levels` is 0."""
    return codec.with_levels(levels) if levels and isinstance(codec, Leveled) else codec


def plausible_seconds(seconds: float) -> bool:
    """Whether a measured duration may be learnt from.

    >>> plausible_seconds(15.5), plausible_seconds(-1.0), plausible_seconds(float("nan"))
    (True, False, False)
    """
    return 0.0 <= seconds <= MAX_SECONDS


def plausible_loss(loss: float) -> bool:
    """Whether a reported loss may be learnt from."""
    return -MAX_LOSS <= loss <= MAX_LOSS


def usable_norm(norm: float) -> bool:
    """Whether log2 of this norm exists."""
    return math.isfinite(norm) and norm > 0.0


def number_to_json(value: float) -> float | None:
    """Return `value`, or None for NaN."""
    return None if math.isnan(value) else float(value)


def number_from_json(value: float | None) -> float:
    """Invert `number_to_json`."""
    return math.nan if value is None else float(value)
