"""PowerSGD (Vogels et al. 2019): every matrix as two thin factors, one power iteration a round, warm start.

    v = u + e;   M ~ P Q^T,   P = orth(M Q'),   Q = M^T P;   e' = v - sent

Q' is this client's last Q, at first drawn from the seed. A tensor is a matrix (first dimension x the rest) and travels
as factors where these are smaller, as it is otherwise: one-dimensional tensors always are. In a star every client sends
both factors, and the server adds up the products. The state at a client: its factors Q and the residual e.
Frame: knobs are the rank u16 and the form of the numbers u8 (0 float32, 1 float16); sections are rows and columns of
every tensor (u32), one power of two a tensor by which float16 numbers were scaled (i8; none for float32), the numbers.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.codec import Encoder, knobs_differ
from adagq.codecs.floats import half_exponent
from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.sending import NO_STATE, decode_own, encoded
from adagq.codecs.topk import VALUES, Values
from adagq.codecs.wire import Frame, Header, frame_size
from adagq.codecs.wrapping import RESIDUAL, undelivered
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, Arrays, Codec, Encoded, LayoutLike, Out
from adagq.core.errors import LayoutError, NonFiniteError, PayloadError
from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector, Layout

TAG_POWERSGD: Final = 12
KNOBS: Final = struct.Struct("<HB")
FACTORS = "factors"
Shapes = Sequence[tuple[int, int]]
WideMatrix = NDArray[np.float64]


def add_powersgd(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    rank, form = KNOBS.unpack_from(frame.knobs)
    frame.expect_sections(3)
    table = frame.section(0, np.uint32).astype(np.int64)
    if table.size % 2 or rank < 1 or form > 1:
        raise PayloadError(f"rank {rank}, form {form}, {table.size} numbers of rows and columns")
    shapes = [(int(rows), int(columns)) for rows, columns in table.reshape(-1, 2)]
    if sum(rows * columns for rows, columns in shapes) != frame.elements or 0 in table:
        raise PayloadError(f"{len(shapes)} tensors do not add up to {frame.elements} elements, or one is empty")
    pieces = list(_pieces(shapes, rank))
    stored, exponents = frame.section(2, VALUES[form]), frame.section(1, np.int8)
    if stored.size != sum(length for _, length, _ in pieces) or exponents.size != form * len(shapes):
        raise PayloadError(f"{stored.size} numbers and {exponents.size} exponents do not fill the tensors")
    vector, at = np.empty(frame.elements, np.float32), 0
    with np.errstate(over="ignore", invalid="ignore"):
        for place, ((rows, columns), (start, length, factored)) in enumerate(zip(shapes, pieces, strict=True)):
            piece = stored[start : start + length].astype(np.float64)
            if form:
                piece = np.ldexp(piece, -int(exponents[place]))
            if factored:
                piece = product_of(
                    piece[: rows * rank].reshape(rows, rank), piece[rows * rank :].reshape(columns, rank)
                )
            vector[at : at + rows * columns] = piece.reshape(-1)
            at += rows * columns
    if not np.isfinite(vector).all():
        raise PayloadError("a number, or a product of factors, is not finite")
    out += np.float32(weight) * vector


def product_of(left: WideMatrix, right: WideMatrix) -> WideMatrix:
    """Return left right^T, summed in a fixed order: the same bits on any machine."""
    total = np.zeros((left.shape[0], right.shape[0]))
    for one, other in zip(left.T, right.T, strict=True):
        total += one[:, None] * other[None, :]
    return total


def _pieces(shapes: Shapes, rank: int) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, length, whether as factors) of every tensor's numbers."""
    start = 0
    for rows, columns in shapes:
        factored = rank * (rows + columns) < rows * columns
        length = rank * (rows + columns) if factored else rows * columns
        yield start, length, factored
        start += length


def matrices_of(layout: LayoutLike, elements: int) -> list[tuple[int, int]]:
    """Return rows and columns of every tensor that is not empty; without a layout the vector is one column."""
    if layout is None:
        return [(elements, 1)] if elements else []
    shapes = layout.shapes if isinstance(layout, Layout) else [(int(size),) for size in layout]
    if (described := sum(map(prod, shapes))) != elements:
        raise LayoutError(f"the layout describes {described} elements, the vector has {elements}")
    return [(prod(shape[:1]), prod(shape[1:])) for shape in shapes if prod(shape)]


def orthonormal(matrix: WideMatrix, least: float = 1e-12) -> WideMatrix:
    """Return an orthonormal basis of the columns (Gram-Schmidt, twice for accuracy); dependent columns become 0.

    A column depends on the others if less than `least` of it is its own.
    """
    basis = np.zeros_like(matrix)
    for place in range(matrix.shape[1]):
        column = matrix[:, place].copy()
        norm = float(np.sqrt(np.sum(column**2)))
        for _ in range(2):
            for other in range(place):
                column -= np.sum(basis[:, other] * column) * basis[:, other]
        left = float(np.sqrt(np.sum(column**2)))
        if left > least * norm:
            basis[:, place] = column / left
    return basis


@register("powersgd", tag=TAG_POWERSGD, decoder=add_powersgd, examples=lambda: _examples())
@dataclass(frozen=True, slots=True)
class PowerSGD(Encoder):
    """Matrices as two factors of this rank, with error feedback and a warm start.

    >>> from adagq.codecs import decode
    >>> layout = Layout.of({"weight": np.zeros((4, 8), np.float32)})
    >>> x = np.outer(np.arange(4.0), np.arange(8.0)).astype(np.float32).reshape(-1)
    >>> bool(np.allclose(decode(PowerSGD(rank=1).encode(x, layout=layout)), x, atol=1e-5))  # of rank 1 already
    True
    """

    rank: int = 2
    values: Values = "float32"

    def __post_init__(self) -> None:
        if not isinstance(self.rank, int) or not 1 <= self.rank < 2**16:
            raise ValueError(f"rank = {self.rank!r}, allowed are 1 to 65535")
        if self.values not in VALUES:
            raise ValueError(f"values = {self.values!r}, allowed are {', '.join(VALUES)}")

    @property
    def unbiased(self) -> bool:
        return False

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        return self._factor(finite_vector(vector), NO_STATE, seed, layout, out)[0]

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
        writer, factors = self._factor(v, state, seed, layout, None)
        payload = writer.finish()
        received = decode_own(payload, v.size)
        return encoded(payload, received, {RESIDUAL: v - received, FACTORS: factors}, self, v)

    def undelivered(self, state: Arrays, payload: bytes, reference: FloatVector | None = None) -> Arrays:
        """Return the state after a payload that never arrived: all of it goes with the next one."""
        return undelivered(state, payload, reference)

    def _factor(
        self, v: FloatVector, state: Arrays, seed: int, layout: LayoutLike, out: Out | None
    ) -> tuple[Writer, FloatVector]:
        shapes, drawn, at, warm = matrices_of(layout, v.size), generator(seed, "powersgd"), 0, 0
        numbers, kept, exponents = [np.empty(0, VALUES[0])], [np.empty(0, np.float32)], []
        for (rows, columns), (_, _, factored) in zip(shapes, _pieces(shapes, self.rank), strict=True):
            piece = v[at : at + rows * columns]
            at += piece.size
            if factored:
                size = columns * self.rank
                last = state[FACTORS][warm : warm + size] if FACTORS in state else drawn.standard_normal(size)
                warm += size
                left, right = _factors(piece.reshape(rows, columns), np.reshape(last, (columns, self.rank)))
                kept.append(right.reshape(-1))
                piece = np.concatenate([left.reshape(-1), right.reshape(-1)])
            if self.values == "float16":
                exponents.append(half_exponent(float(np.abs(piece).max(initial=0.0))))
                piece = np.ldexp(piece, exponents[-1]).astype(np.float16)
            numbers.append(piece)
        sections: list[NDArray[Any]] = [
            np.array(shapes, np.uint32).reshape(-1),
            np.array(exponents, np.int8),
            np.concatenate(numbers).astype(self.values),
        ]
        knobs = KNOBS.pack(self.rank, VALUES.index(self.values))
        return filled(TAG_POWERSGD, v.size, sections, seed=seed, knobs=knobs, out=out), np.concatenate(kept)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, 8.0 * self.max_bytes(vector.size, [vector.size] if layout is None else layout))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        width, scaled = (4, 0) if self.values == "float32" else (2, 1)
        if layout is None:
            return frame_size([8 * elements, scaled * elements, width * elements])
        shapes = matrices_of(layout, elements)
        numbers = sum(length for _, length, _ in _pieces(shapes, self.rank))
        return frame_size([8 * len(shapes), scaled * len(shapes), width * numbers])

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        rank, form = KNOBS.unpack_from(header.knobs)
        values = VALUES[form] if form < 2 else form
        return knobs_differ(("rank", rank, self.rank), ("values", values, self.values))


def _factors(matrix: FloatVector, last: NDArray[Any]) -> tuple[FloatVector, FloatVector]:
    """Return P and Q of one power iteration from the last Q."""
    wide = matrix.astype(np.float64)
    left = orthonormal(np.einsum("ij,jk->ik", wide, last.astype(np.float64)))
    with np.errstate(over="ignore"):
        right = np.einsum("ij,ik->jk", wide, left).astype(np.float32)
    if not np.isfinite(right).all():
        raise NonFiniteError("a factor is too large for float32")
    return left.astype(np.float32), right


def _examples() -> tuple[Codec, ...]:
    return (PowerSGD(1), PowerSGD(4), PowerSGD(2, "float16"))
