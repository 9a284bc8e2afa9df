"""A server optimizer of one's own: steps no longer than `largest`, and a count of those that were cut."""

from dataclasses import dataclass

import numpy as np

from adagq.server.optimizers import OPTIMIZERS, Step


@OPTIMIZERS.register("clipping")
@dataclass(frozen=True)
class Clipping:
    largest: float = 0.5

    def step(self, mean, state, receipts, layout) -> Step:
        norm = float(np.linalg.norm(mean))
        cut = int(norm > self.largest)
        counted = np.array([cut + int(state["cut"][0]) if state else cut])
        return Step(np.float32(min(1.0, self.largest / max(norm, 1e-12))) * mean, {"cut": counted})
