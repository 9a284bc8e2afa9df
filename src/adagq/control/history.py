"""What a controller remembers of each client's seconds and sizes.

    t_cp_i   mean of the compute seconds of all of the client's rounds
    t_cm_i   upload seconds of its last round, at b_i level bits
    bits_i   rate curve of its last update: payload bits at 1..16 level bits

The upload seconds at other bits follow as `t_cm_i * bits_i(b) / bits_i(b_i)`, so any unit of `bits_i` will
do: real payload bits, or the paper's plain b. Dividing by the curve instead of by `upload_bytes` keeps that
ratio right when a small model stands in for a large one (its curve is not scaled), and leaves out the
buffers, whose size is not ours to choose.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.control.allocate import bits_of, fill_rates
from adagq.control.controller import plausible_seconds
from adagq.core.codec import LEVEL_BITS
from adagq.core.messages import Receipt

FloatArray = NDArray[np.float64]
FAST = 10.0  # times the median: as fast as a client may be
ALIKE = 4.0  # a curve, relative to its own median, is nowhere further than this factor from most


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Columns over clients, not written to once made; NaN, 0 rounds or 0 bits where nothing is known."""

    compute_total: FloatArray
    compute_rounds: NDArray[np.int64]
    upload_seconds: FloatArray
    level_bits: NDArray[np.int64]
    rate_bits: FloatArray  # (clients, 16)

    @classmethod
    def blank(cls, clients: int) -> "History":
        return cls(
            compute_total=np.zeros(clients),
            compute_rounds=np.zeros(clients, np.int64),
            upload_seconds=np.full(clients, np.nan),
            level_bits=np.zeros(clients, np.int64),
            rate_bits=np.full((clients, LEVEL_BITS), np.nan),
        )

    @property
    def empty(self) -> bool:
        """Whether no upload has been seen yet."""
        return not self.level_bits.any()

    def extended(self, receipts: Iterable[Receipt]) -> "History":
        """Return the history after these receipts; what is not finite or not plausible in them is skipped."""
        receipts = tuple(receipts)
        if not receipts:
            return self
        new = self._grown(1 + max(receipt.client for receipt in receipts))
        for receipt, believed in zip(receipts, believed_curves(receipts), strict=True):
            i = receipt.client
            if plausible_seconds(receipt.compute_seconds):
                new.compute_total[i] += receipt.compute_seconds
                new.compute_rounds[i] += 1
            if plausible_seconds(receipt.upload_seconds) and 1 <= receipt.levels < 1 << LEVEL_BITS:
                new.upload_seconds[i] = receipt.upload_seconds
                new.level_bits[i] = bits_of(receipt.levels)
            if believed:
                new.rate_bits[i] = receipt.rate_bits
        return new

    def _grown(self, clients: int) -> "History":
        """Return a copy with room for `clients`: a deployment may meet nodes it was not started with."""
        new = History.blank(max(clients, self.compute_total.size))
        for name in self.__slots__:
            old = getattr(self, name)
            getattr(new, name)[: len(old)] = old
        return new

    def estimates(self, cohort: Sequence[int], curves: bool) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Return what `allocate` wants: t_cp, seconds per bit, and curves (None for the paper's b)."""
        known = self if max(cohort, default=-1) < self.compute_total.size else self._grown(1 + max(cohort))
        pick = np.asarray(cohort, np.int64)
        rounds = known.compute_rounds[pick]
        compute = _not_too_fast(np.where(rounds > 0, known.compute_total[pick] / np.maximum(rounds, 1), np.nan))
        level_bits = known.level_bits[pick]
        if curves:
            rates = fill_rates(known.rate_bits[pick])
            sent = rates[np.arange(pick.size), np.maximum(level_bits, 1) - 1]
            return compute, _not_too_fast(known.upload_seconds[pick] / sent), rates
        return compute, _not_too_fast(known.upload_seconds[pick] / np.maximum(level_bits, 1)), None

    def to_json(self) -> dict[str, Any]:
        """Return the columns of the clients that have any history."""
        met = np.flatnonzero((self.compute_rounds > 0) | (self.level_bits > 0))
        curved = np.flatnonzero(np.isfinite(self.rate_bits[:, 0]))
        return {
            "clients": int(self.compute_total.size),
            "met": met.tolist(),
            "compute_total": self.compute_total[met].tolist(),
            "compute_rounds": self.compute_rounds[met].tolist(),
            "upload_seconds": [None if np.isnan(t) else float(t) for t in self.upload_seconds[met]],
            "level_bits": self.level_bits[met].tolist(),
            "rate_bits": {str(i): self.rate_bits[i].tolist() for i in curved},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "History":
        """Invert `to_json`."""
        new = cls.blank(data["clients"])
        met = np.asarray(data["met"], np.int64)
        for name in ("compute_total", "compute_rounds", "upload_seconds", "level_bits"):
            column = getattr(new, name)
            column[met] = np.asarray(data[name], column.dtype)
        for client, curve in data["rate_bits"].items():
            new.rate_bits[int(client)] = curve
        return new


def _not_too_fast(seconds: FloatArray) -> FloatArray:
    """Return the seconds, none below a FAST-th of the median.

    Levels grow exponentially with bits, so one client that claims to need no time would take all of the mean's.
    """
    known = seconds[seconds >= 0.0]
    return np.maximum(seconds, np.median(known) / FAST) if known.size else seconds


def believed_curves(receipts: Sequence[Receipt]) -> list[bool]:
    """Whether each receipt's rate curve may be learnt from: complete, and of much the same shape as most."""
    plausible = [plausible_curve(receipt.rate_bits) for receipt in receipts]
    if sum(plausible) < 3:
        return plausible
    curves = np.array([r.rate_bits for r, whole in zip(receipts, plausible, strict=True) if whole])
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        shapes = curves / np.median(curves, axis=1, keepdims=True)
        alike = np.all(np.abs(np.log(shapes / np.median(shapes, axis=0))) <= math.log(ALIKE), axis=1)
    verdicts = iter(alike.tolist())
    return [whole and next(verdicts) for whole in plausible]


def plausible_curve(rate_bits: Sequence[float]) -> bool:
    """Whether this is a complete rate curve of positive finite sizes."""
    return len(rate_bits) == LEVEL_BITS and all(0.0 < bits < math.inf for bits in rate_bits)
