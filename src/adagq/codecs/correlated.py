"""Time-correlated sparsification (Ozfatura et al. 2021): most large entries are where they were in the last round.

    v = u + e;   sent = v on the largest `shared` of the last aggregate, and the largest `own` of the rest
    e' = v - sent

Both ends know the last aggregate, so the values on its mask need no indices; the client's own entries keep the mask
moving, and cost an index each. Without an aggregate a client sends `own` of the entries alone.
Frame: knobs are entries of the mask u32, gaps u32, and the digest of the aggregate u64; the flags are the shift of the
gaps. Sections: the client's own values (float16), their indices as Top-k's coded ones, the values on the mask
(float16), then the powers of two by which either were scaled (i8). Without own entries the gaps' sections are empty.
"""

import struct
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.codec import Encoder
from adagq.codecs.floats import half_exponent
from adagq.codecs.inputs import finite_vector, largest_magnitude
from adagq.codecs.referring import digest_of, named_reference
from adagq.codecs.registry import register
from adagq.codecs.sending import decode_own, encoded
from adagq.codecs.topk import MAX_SHIFT, coded_bits, decode_gaps, encode_gaps, largest, max_gap_bytes
from adagq.codecs.wire import Frame, frame_size
from adagq.codecs.wrapping import RESIDUAL, undelivered
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, Arrays, Codec, Encoded, LayoutLike, Out
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector

TAG_CORRELATED: Final = 17
KNOBS: Final = struct.Struct("<IIQ")


def add_correlated(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    masked, gaps, digest = KNOBS.unpack_from(frame.knobs)
    frame.expect_sections(6)
    own, values = frame.section(0, np.float16), frame.section(4, np.float16)
    exponents = frame.section(5, np.int8)
    if frame.flags > MAX_SHIFT or own.size + masked > frame.elements or masked != values.size or exponents.size != 2:
        raise PayloadError(f"shift {frame.flags}, {own.size} own entries, {masked} on the mask, {values.size} values")
    if masked and not digest:
        raise PayloadError("entries on a mask, and no aggregate to take it from")
    with np.errstate(over="ignore", invalid="ignore"):
        own = np.ldexp(own.astype(np.float32), -int(exponents[0]))
        values = np.ldexp(values.astype(np.float32), -int(exponents[1]))
    if not (np.isfinite(own).all() and np.isfinite(values).all()):
        raise PayloadError("a value is not finite")
    indices = decode_gaps(frame, frame.flags, gaps, own.size) if own.size else np.empty(0, np.uint32)
    reference = named_reference(frame, digest)
    if reference is not None:
        out[largest(reference, masked)] += np.float32(weight) * values
    out[indices] += np.float32(weight) * own


def _examples() -> tuple[Codec, ...]:
    return (Correlated(), Correlated(0.5, 0.5), Correlated(0.01, 1.0))


@register("correlated", tag=TAG_CORRELATED, decoder=add_correlated, examples=_examples)
@dataclass(frozen=True, slots=True)
class Correlated(Encoder):
    """Values on the last aggregate's largest `shared` entries, and `own` of the client's with their indices.

    >>> from adagq.codecs import send
    >>> aggregate = np.array([0.0, 9.0, 0.0, 0.0], np.float32)
    >>> sent = send(Correlated(0.25, 0.25), np.array([3.0, 1.0, 2.0, 0.5], np.float32), reference=aggregate)
    >>> sent.received, sent.state["residual"]
    (array([3., 1., 0., 0.], dtype=float32), array([0. , 0. , 2. , 0.5], dtype=float32))
    """

    shared: float = 0.01
    own: float = 0.001

    def __post_init__(self) -> None:
        for name in ("shared", "own"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} = {getattr(self, name)}, allowed are numbers above 0 and up to 1")

    @property
    def unbiased(self) -> bool:
        return False

    def _counts(self, elements: int, known: bool) -> tuple[int, int]:
        """Return how many entries there are on the mask, and of the client's own."""
        masked = min(elements, ceil(self.shared * elements)) if known else 0
        return masked, min(elements - masked, ceil(self.own * elements))

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        return self._written(finite_vector(vector), None, seed, out)

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
        v = finite_vector(vector + state[RESIDUAL] if RESIDUAL in state else vector)
        payload = self._written(v, reference, seed, None).finish()
        received = decode_own(payload, v.size, reference)
        return encoded(payload, received, {RESIDUAL: v - received}, self, v)

    def undelivered(self, state: Arrays, payload: bytes, reference: FloatVector | None = None) -> Arrays:
        """Return the state after a payload that never arrived: all of it goes with the next one."""
        return undelivered(state, payload, reference)

    def _written(self, v: FloatVector, reference: FloatVector | None, seed: int, out: Out | None) -> Writer:
        digest = digest_of(reference)
        masked, own = self._counts(v.size, digest != 0)
        mask = largest(reference, masked) if reference is not None and digest else np.empty(0, np.uint32)
        rest = v.copy()
        rest[mask] = 0
        indices = largest(rest, own)
        indices = indices[rest[indices] != 0]  # a mask may leave less than `own`
        shift, gaps, coded = encode_gaps(indices) if indices.size else (0, 0, [np.empty(0, np.uint8)] * 3)
        pieces, exponents = [], []
        for values in (v[indices], v[mask]):
            exponents.append(half_exponent(largest_magnitude(values)) if values.size else 0)
            pieces.append(np.ldexp(values, exponents[-1]).astype(np.float16))
        sections = [pieces[0], *coded, pieces[1], np.array(exponents, np.int8)]
        knobs = KNOBS.pack(mask.size, gaps, digest)
        return filled(TAG_CORRELATED, v.size, sections, flags=shift, seed=seed, knobs=knobs, out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        own = min(self._counts(vector.size, known=False)[1], int(np.count_nonzero(vector)))
        bits = coded_bits(vector.size, own, 2 * own) if own else 8.0 * frame_size([0, 0, 0, 0, 0, 2])
        return np.full(LEVEL_BITS, bits)

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        masked, own = min(elements, ceil(self.shared * elements)), min(elements, ceil(self.own * elements))
        return frame_size([2 * own, *max_gap_bytes(own, elements), 2 * masked, 2])
