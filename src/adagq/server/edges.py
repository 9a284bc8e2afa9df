"""Two levels: edge servers add up their clients' updates, encode the mean anew and pass on one payload each.

Client i belongs to edge i mod edges. The central server weights the edges' means by their examples. What that costs is
the noise of a second encoding, by QSGD of `levels` levels with dither, and the edges' time, which the backend accounts
for from the bytes in `sent`. An edge holds a model or two, as a server does.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from adagq.codecs import QSGD, decode
from adagq.core.messages import Update
from adagq.core.seeds import derive
from adagq.core.vectors import FloatVector, Layout
from adagq.server.aggregate import Aggregate


@dataclass
class EdgeSum:
    """The mean over all updates, by way of `edges` servers."""

    layout: Layout
    edges: int
    levels: int
    seed: int  # of this round's encodings
    reference: FloatVector | None = None  # the last broadcast step, for payloads that build on it
    sent: dict[int, int] = field(default_factory=dict)  # edge -> bytes of its payload, once the mean is made
    _sums: dict[int, Aggregate] = field(default_factory=dict)

    def add(self, update: Update, max_bytes: int | None = None, discount: float = 1.0) -> None:
        self._edge(update).add(update, max_bytes, discount)

    def add_clipped(
        self, update: Update, largest: float = math.inf, max_bytes: int | None = None, discount: float = 1.0
    ) -> float:
        return self._edge(update).add_clipped(update, largest, max_bytes, discount)

    def mean(self) -> FloatVector:
        """Return the mean of what the edges' payloads decode to."""
        codec = QSGD(self.levels, "tensor", "l2", "dither", "entropy")
        total, examples = np.zeros(self.layout.elements, np.float32), 0
        for edge, one in sorted(self._sums.items()):
            if not one.examples:
                continue  # all of its updates were refused
            weight = one.examples
            payload = codec.encode(one.mean(), derive(self.seed, "edge", edge), self.layout)
            self.sent[edge] = len(payload)
            total += np.float32(weight) * decode(payload, self.layout.elements)
            examples += weight
        total *= np.float32(1 / max(examples, 1))
        return total

    def _edge(self, update: Update) -> Aggregate:
        edge = update.client % self.edges
        if edge not in self._sums:
            self._sums[edge] = Aggregate(self.layout)
            self._sums[edge].reference = self.reference
        return self._sums[edge]
