"""Takes in a round's updates: in client order, measured by each other, added up as soon as that is possible.

A sum of floats depends on its order. By client number it does not depend on who was faster; but payloads that wait for
their turn are held in memory, so past HELD_BYTES they are added as they come. No single update counts for much more
than the others: its norm is cut to `norm_bound` times the usual one, its examples to `weight_bound` times the usual
number. What is usual is known from recent rounds. The first payload may be a probe of a few bits, so in the first two
rounds payloads are held until all are there, and measured by each other. A client
that holds its update back is there and adds nothing: the mean is over the others. What is made of the updates is the
aggregate's business (`robust`, `choosing`).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

import numpy as np

import adagq.server.choosing  # noqa: F401 - registers its aggregates
from adagq.codecs.withholding import is_withheld
from adagq.core.errors import PayloadError
from adagq.core.messages import Update
from adagq.core.vectors import FloatVector, Layout
from adagq.server.aggregate import norm_of, usable
from adagq.server.buffers import checked_buffers, mean_buffers, median_buffers
from adagq.server.edges import EdgeSum
from adagq.server.privacy import Privacy
from adagq.server.robust import AGGREGATES, Sum

HELD_BYTES: Final = 256 * 2**20
NO_PRIVACY: Final = Privacy()
ENOUGH_ROUNDS: Final = 2  # before that updates are measured by each other
RECENT: Final = 100  # norms and example counts that are remembered
Note = Callable[[int, str], None]  # client, reason


@dataclass(frozen=True, slots=True)
class Usual:
    """What accepted updates were like lately; all that a new one is measured by."""

    norms: tuple[float, ...] = ()
    examples: tuple[int, ...] = ()
    rounds: int = ENOUGH_ROUNDS  # that it is known from, as far as it matters

    def after(self, norms: Iterable[float], examples: Iterable[int]) -> "Usual":
        rounds = min(self.rounds + 1, ENOUGH_ROUNDS) if self.examples else 1
        return Usual((*self.norms, *norms)[-RECENT:], (*self.examples, *examples)[-RECENT:], rounds)

    @property
    def known(self) -> bool:
        return bool(self.examples) and self.rounds >= ENOUGH_ROUNDS


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many times the usual norm and number of examples an update may have; inf for no bound."""

    norm: float = math.inf
    examples: float = math.inf


def _not_ahead(update: Update) -> None:
    """Of aggregates that hold payloads."""


@dataclass
class Intake:
    """One round's updates. `refuse` and `clamp` are called for what is not used, or not as it is."""

    layout: Layout
    clients: Sequence[int]  # who is expected, in order
    usual: Usual
    bounds: Bounds
    refuse: Note
    clamp: Note
    aggregate: str = "mean"  # of AGGREGATES
    byzantine_share: float = 0.3  # of the updates that may be bad, where the aggregate needs to know
    privacy: Privacy = NO_PRIVACY
    noise_seed: int = 0
    reference: FloatVector | None = None  # the last broadcast step, for payloads that build on it
    buffers: FloatVector | None = None  # the model's, which stay if all clients hold back
    edges: EdgeSum | None = None  # where edge servers add up first
    accepted: dict[int, int] = field(default_factory=dict)  # client -> examples that count
    discounts: dict[int, float] = field(default_factory=dict)  # client -> how much of its update counts; 1 if not here
    _held: dict[int, Update] = field(default_factory=dict)
    _held_bytes: int = 0
    _norms: list[float] = field(default_factory=list)
    _buffers: list[tuple[int, int, bytes]] = field(default_factory=list)  # client, examples, payload

    def __post_init__(self) -> None:
        self._expected = list(self.clients)
        self._measure = self.usual  # what updates are measured by
        self._sum: Sum = self.edges or AGGREGATES[self.aggregate](self.layout, self.byzantine_share)
        self._sum.reference = self.reference
        self._added = 0

    def put(self, update: Update) -> None:
        """Take an update whose fields were checked; its payload is decoded now or later."""
        self._held[update.client] = update
        self._held_bytes += update.nbytes
        while self._held and (self._next_is_here() or self._held_bytes > HELD_BYTES):
            first = self._expected[0] if self._next_is_here() else min(self._held)
            self._take(first)
        here = update.client in self._held and not is_withheld(update.payload)
        if here and self.usual.known and self.bounds.norm < math.inf:
            getattr(self._sum, "decode_ahead", _not_ahead)(update)

    def missing(self, client: int) -> None:
        """Nothing will come of this client any more."""
        if client in self._expected and client not in self._held:
            self._expected.remove(client)
            while self._held and self._next_is_here():
                self._take(self._expected[0])

    def close(self) -> tuple[FloatVector, FloatVector] | None:
        """Add what is held and return the mean update and the mean buffers; None if they cannot be used."""
        if not self.usual.known:
            self._measure_held()
        for client in sorted(self._held):
            self._take(client)
        if not self.accepted:
            return None
        if not self._added:  # all held back: the model stays where it is
            stay = np.zeros(self.layout.elements, np.float32)
            return stay, np.zeros(0, np.float32) if self.buffers is None else self.buffers
        buffers = self._close_buffers()
        mean = self.privacy.noised(self._sum.mean(), self._added, self.noise_seed)
        return (mean, buffers) if usable(mean) and usable(buffers) else None

    def learnt(self) -> Usual:
        """Return what is usual after this round."""
        return self.usual.after(self._norms, self.accepted.values())

    def _close_buffers(self) -> FloatVector:
        held = sorted(self._buffers)
        if self.aggregate != "mean":
            return median_buffers([payload for _, _, payload in held], self.layout)
        buffers, cut = mean_buffers([(examples, payload) for _, examples, payload in held], self.layout)
        for place in cut:
            self.clamp(held[place][0], "buffers far from the other clients' are cut to size")
        return buffers

    def _next_is_here(self) -> bool:
        return self.usual.known and bool(self._expected) and self._expected[0] in self._held

    def _measure_held(self) -> None:
        """The first rounds have only their own updates to measure each one by."""
        norms = []
        for client, update in list(self._held.items()):
            if is_withheld(update.payload):
                continue
            try:
                bounded = self.bounds.norm < math.inf
                norms.append(norm_of(update, self.layout, None, self.reference) if bounded else 0.0)
            except PayloadError as error:
                self._drop(client)
                self.refuse(client, str(error))
        self._measure = Usual(tuple(norms), tuple(update.examples for update in self._held.values()))

    def _drop(self, client: int) -> Update:
        update = self._held.pop(client)
        self._held_bytes -= update.nbytes
        if client in self._expected:
            self._expected.remove(client)
        return update

    def _take(self, client: int) -> None:
        update = self._drop(client)
        if self.privacy.on:  # all weigh the same: examples are a claim, and would be a client's own business
            update = replace(update, examples=1)
        known = self._measure.examples
        most = max(int(self.bounds.examples * median(known)), 1) if known and self.bounds.examples < math.inf else None
        if most is not None and update.examples > most:
            self.clamp(client, f"{update.examples} examples count as {most}")
            update = replace(update, examples=most)
        if is_withheld(update.payload):
            self.accepted[client] = update.examples
            return
        try:
            buffers = checked_buffers(update.buffers, self.layout)
            self._add(update)
        except PayloadError as error:
            self.refuse(client, str(error))
            return
        self._added += 1
        self.accepted[client] = update.examples
        if buffers.size:
            self._buffers.append((client, update.examples, update.buffers))

    def _add(self, update: Update) -> None:
        discount = self.discounts.get(update.client, 1.0)
        if self.privacy.central:  # no more than the noise hides; quantization makes norms larger, which is no offence
            self._sum.add_clipped(update, self.privacy.clip, None, discount)
            return
        if self.bounds.norm == math.inf:
            self._sum.add(update, None, discount)
            return
        norms = self._measure.norms
        largest = self.bounds.norm * median(norms) if norms else math.inf
        norm = self._sum.add_clipped(update, largest, None, discount)
        if norm > largest:
            self.clamp(update.client, f"an update of norm {norm:.4g} counts as one of norm {largest:.4g}")
        self._norms.append(min(norm, largest))
