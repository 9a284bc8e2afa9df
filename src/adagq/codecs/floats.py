"""Uncompressed baselines: `Float32` and `Float16`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.codec import LEVEL_BITS
from adagq.codecs.inputs import finite_vector
from adagq.codecs.wire import Frame, build, frame_size
from adagq.errors import PayloadError
from adagq.vectors import FloatVector, Layout

TAG_FLOAT32: Final = 1


@dataclass(frozen=True, slots=True)
class Float32:
    """The vector as it is: 32 bits a number.

    >>> from adagq.codecs import decode
    >>> decode(Float32().encode(np.array([1.5, -2.0], np.float32)))
    array([ 1.5, -2. ], dtype=float32)
    """

    unbiased: bool = True

    def encode(
        self, vector: NDArray[Any], seed: int = 0, layout: Layout | Sequence[int] | None = None, threads: int = 1
    ) -> bytes:
        data = finite_vector(vector)
        return build(TAG_FLOAT32, data.size, [data], seed=seed)

    def rate_curve(
        self, vector: NDArray[Any], layout: Layout | Sequence[int] | None = None
    ) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, 8.0 * frame_size([4 * vector.size]))


def add_float32(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    frame.expect_sections(1)
    data = frame.section(0, np.float32)
    if data.size != frame.elements:
        raise PayloadError(f"float32 section holds {data.size} numbers, the header says {frame.elements}")
    if not np.isfinite(data).all():
        raise PayloadError("float32 payload holds a number that is not finite")
    out += np.float32(weight) * data
