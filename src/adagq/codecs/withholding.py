"""CMFL (Luping et al. 2019): an update that does not go where the others went is not sent.

    sent iff the share of entries whose sign is the last aggregate's > threshold / sqrt(round)

A client that holds back sends a frame with an empty section, which is counted as any payload; the mean is over the
others. Before the first aggregate all are sent.
"""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.codec import Encoder
from adagq.codecs.floats import Float32
from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.sending import encoded, send
from adagq.codecs.wire import Frame, frame_size, read_header
from adagq.codecs.wrapping import Wrapper
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, Arrays, Buffer, Codec, Encoded, LayoutLike, Leveled, Out, Stateful, levels_of
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector

TAG_WITHHELD: Final = 14
NOTHING: Final = frame_size([0])  # bytes


def add_nothing(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    frame.expect_sections(1)
    if frame.sections[0].size:
        raise PayloadError(f"{frame.sections[0].size} bytes of an update that is held back")


@register("withheld", tag=TAG_WITHHELD, decoder=add_nothing, examples=lambda: (Withheld(),))
@dataclass(frozen=True, slots=True)
class Withheld(Encoder):
    """An empty frame: the client holds its update back.

    >>> len(Withheld().encode(np.ones(1000, np.float32)))
    52
    """

    @property
    def unbiased(self) -> bool:
        return False

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        return filled(TAG_WITHHELD, finite_vector(vector).size, [b""], seed=seed, out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, 8.0 * NOTHING)

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return NOTHING


def is_withheld(payload: Buffer) -> bool:
    """Whether a client says with this payload that it holds its update back."""
    try:
        return read_header(payload).tag == TAG_WITHHELD
    except PayloadError:
        return False


@register("cmfl", examples=lambda: (CMFL(Float32()), CMFL(Float32(), 0.6, 4)))
@dataclass(frozen=True, slots=True)
class CMFL(Wrapper):
    """A plain codec for updates that agree with the last aggregate, and nothing for the others.

    >>> codec, aggregate = CMFL(Float32(), threshold=0.8), np.array([1.0, 1.0, -1.0, -1.0], np.float32)
    >>> codec.relevant(np.array([2.0, -2.0, -2.0, 2.0], np.float32), aggregate)  # 0.5 of the signs agree
    False
    >>> codec.at_round(4).relevant(np.array([2.0, -2.0, -2.0, 2.0], np.float32), aggregate)  # 0.8 / 2
    True
    """

    codec: Codec
    threshold: float = 0.8
    round: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.codec, Stateful) or not isinstance(self.codec, Codec):
            raise ValueError(f"codec = {self.codec!r}: must be a plain codec, one without state")
        if not 0.0 <= self.threshold <= 1.0 or self.round < 1:
            raise ValueError(f"threshold = {self.threshold}, round = {self.round}: must be in 0 … 1, and at least 1")

    @property
    def inner(self) -> Codec:
        return self.codec

    @property
    def levels(self) -> int:
        return levels_of(self.codec)

    def with_levels(self, levels: int) -> "CMFL":
        if not isinstance(self.codec, Leveled):
            raise ValueError(f"levels = {levels}: {type(self.codec).__name__} has no levels")
        return replace(self, codec=self.codec.with_levels(levels))

    def at_round(self, round: int) -> "CMFL":
        return replace(self, round=max(round, 1))

    def relevant(self, update: FloatVector, aggregate: FloatVector | None) -> bool:
        """Whether enough of the update's signs are those of the last aggregate, if there is one."""
        if aggregate is None or not aggregate.any():
            return True
        return float(np.mean(np.sign(update) == np.sign(aggregate))) > self.threshold / sqrt(self.round)

    def encode_with_state(
        self,
        vector: FloatVector,
        state: Arrays,
        *,
        seed: int = 0,
        layout: LayoutLike = None,
        reference: FloatVector | None = None,
        budget_bytes: int | None = None,
    ) -> Encoded:
        x = finite_vector(vector)
        if self.relevant(x, reference):
            return send(self.codec, x, seed=seed, layout=layout, reference=reference, budget_bytes=budget_bytes)
        nothing = np.zeros_like(x)
        return encoded(Withheld().encode(x, seed), nothing, {}, self.codec, nothing)

    def undelivered(self, state: Arrays, payload: bytes, reference: FloatVector | None = None) -> Arrays:
        """Return the state after a payload that never arrived: there is none."""
        return state

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return max(self.codec.max_bytes(elements, layout), NOTHING)

    def mismatch(self, payload: Buffer, fitted: bool = False) -> str:
        return "" if is_withheld(payload) else self.codec.mismatch(payload, fitted)
