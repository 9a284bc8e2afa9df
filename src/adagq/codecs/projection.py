"""PowerSGD with factors that take turns: in a star one factor a round is enough (Vogels et al. 2019, alternating).

    v = u + e;   odd rounds  P = M B,    B an orthonormal basis of the rows of the last aggregate,     M ~ P B^T
                 even rounds Q = M^T B,  B an orthonormal basis of its columns,                        M ~ B Q^T
    e' = v - sent

Everybody knows B from the last broadcast, so a client sends its product alone, half of both factors, and the mean of
the products is the product of the mean: exact, and of the same rank. The broadcast is that mean as two factors
(`PowerSGD`), from which the next B follows: over two rounds this is a power iteration with a warm start. Directions
that the aggregate does not have are drawn from its digest. A tensor travels so where both factors together are smaller
than itself, as it is otherwise. The state at a client is the residual e.
Frame: knobs are the rank u16, the form of the numbers u8 (0 float32, 1 float16, 2 int8), the side u8 (0: of the rows)
and the digest of the aggregate u64; sections: rows and columns of every tensor (u32), one scale a tensor (float32; none
for float32 numbers), the numbers.
"""

import struct
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.codec import Encoder, knobs_differ
from adagq.codecs.inputs import finite_vector
from adagq.codecs.powersgd import WideMatrix, matrices_of, orthonormal, product_of
from adagq.codecs.referring import digest_of, named_reference
from adagq.codecs.registry import register
from adagq.codecs.sending import decode_own, encoded
from adagq.codecs.spans import LARGEST_SCALE
from adagq.codecs.wire import Frame, Header, frame_size
from adagq.codecs.wrapping import RESIDUAL, undelivered
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, Arrays, Codec, Encoded, LayoutLike, Out
from adagq.core.errors import NonFiniteError, PayloadError
from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector

TAG_PROJECTION: Final = 15
KNOBS: Final = struct.Struct("<HBBxxxxQ")
Numbers = Literal["float32", "float16", "int8"]
NUMBERS: Final[tuple[Numbers, ...]] = ("float32", "float16", "int8")
STEPS: Final = {"float16": 1024.0, "int8": 127.0}  # what the largest number of a tensor is scaled to
SAME_DIRECTION: Final = 1e-5  # a column with less than this of its own is float32's rounding of the others


def add_projection(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    rank, form, side, digest = KNOBS.unpack_from(frame.knobs)
    frame.expect_sections(3)
    table = frame.section(0, np.uint32).astype(np.int64)
    if table.size % 2 or rank < 1 or form >= len(NUMBERS) or side > 1:
        raise PayloadError(f"rank {rank}, form {form}, side {side}, {table.size} numbers of rows and columns")
    shapes = [(int(rows), int(columns)) for rows, columns in table.reshape(-1, 2)]
    if sum(rows * columns for rows, columns in shapes) != frame.elements or 0 in table:
        raise PayloadError(f"{len(shapes)} tensors do not add up to {frame.elements} elements, or one is empty")
    stored, scales = frame.section(2, NUMBERS[form]), frame.section(1, np.float32)
    lengths = [_length(shape, rank, side) for shape in shapes]
    if stored.size != sum(lengths) or scales.size != (len(shapes) if form else 0):
        raise PayloadError(f"{stored.size} numbers and {scales.size} scales do not fill the tensors")
    if not ((scales >= 0) & (scales <= LARGEST_SCALE)).all():
        raise PayloadError(f"a scale is not a number from 0 to {LARGEST_SCALE:g}")
    reference = named_reference(frame, digest)
    vector, start, at = np.empty(frame.elements, np.float32), 0, 0
    with np.errstate(over="ignore", invalid="ignore"):
        for place, (shape, length) in enumerate(zip(shapes, lengths, strict=True)):
            piece = stored[start : start + length].astype(np.float64)
            if form:
                piece *= float(scales[place])
            size = shape[0] * shape[1]
            if _factored(shape, rank):
                basis = _basis(reference, at, shape, rank, side, digest)
                factor = piece.reshape(-1, rank)
                piece = (product_of(basis, factor) if side else product_of(factor, basis)).reshape(-1)
            vector[at : at + size] = piece
            start, at = start + length, at + size
    if not np.isfinite(vector).all():
        raise PayloadError("a number, or a product of factors, is not finite")
    out += np.float32(weight) * vector


def _factored(shape: tuple[int, int], rank: int) -> bool:
    return rank * (shape[0] + shape[1]) < shape[0] * shape[1]


def _length(shape: tuple[int, int], rank: int, side: int) -> int:
    """Return how many numbers a tensor takes: one factor, or all of it."""
    return rank * shape[side] if _factored(shape, rank) else shape[0] * shape[1]


def _basis(
    reference: FloatVector | None, at: int, shape: tuple[int, int], rank: int, side: int, digest: int
) -> WideMatrix:
    """Return an orthonormal basis (columns x rank, or rows x rank) of one tensor of the aggregate."""
    rows, columns = shape
    drawn = generator(digest, "projection", at, side)
    candidates = drawn.standard_normal((rows if side else columns, rank))
    if reference is not None:
        matrix = reference[at : at + rows * columns].reshape(rows, columns).astype(np.float64)
        mixed = drawn.standard_normal((columns if side else rows, rank))
        seen = np.einsum("ij,jk->ik", matrix if side else matrix.T, mixed)
        candidates = np.concatenate([seen, candidates], axis=1)
    basis = orthonormal(candidates, SAME_DIRECTION)
    return basis[:, np.flatnonzero(basis.any(axis=0))[:rank]]


def _examples() -> tuple[Codec, ...]:
    return (Projection(1), Projection(4, "float16"), Projection(2, "int8", 1))


@register("projection", tag=TAG_PROJECTION, decoder=add_projection, examples=_examples)
@dataclass(frozen=True, slots=True)
class Projection(Encoder):
    """Matrices as their product with a basis that both ends know; `side` 0 and 1 take turns by the round.

    >>> from adagq.codecs import send
    >>> from adagq.core.vectors import Layout
    >>> layout = Layout.of({"weight": np.zeros((4, 8), np.float32)})
    >>> x = np.outer(np.arange(4.0), np.arange(8.0)).astype(np.float32).reshape(-1)
    >>> received = send(Projection(rank=1), x, layout=layout, reference=2 * x).received  # it has the same rows
    >>> bool(np.allclose(received, x, atol=1e-4)), bool(np.allclose(send(Projection(1), x, layout=layout).received, x))
    (True, False)
    """

    rank: int = 2
    values: Numbers = "float32"
    side: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.rank, int) or not 1 <= self.rank < 2**16 or self.side not in (0, 1):
            raise ValueError(f"rank = {self.rank!r}, side = {self.side!r}: allowed are 1 to 65535, 0 and 1")
        if self.values not in NUMBERS:
            raise ValueError(f"values = {self.values!r}, allowed are {', '.join(NUMBERS)}")

    @property
    def unbiased(self) -> bool:
        return False

    def at_round(self, round: int) -> "Projection":
        return replace(self, side=(round + 1) % 2)

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        return self._written(finite_vector(vector), None, seed, layout, out)

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
        payload = self._written(v, reference, seed, layout, None).finish()
        received = decode_own(payload, v.size, reference)
        return encoded(payload, received, {RESIDUAL: v - received}, self, v)

    def undelivered(self, state: Arrays, payload: bytes, reference: FloatVector | None = None) -> Arrays:
        """Return the state after a payload that never arrived: all of it goes with the next one."""
        return undelivered(state, payload, reference)

    def _written(
        self, v: FloatVector, reference: FloatVector | None, seed: int, layout: LayoutLike, out: Out | None
    ) -> Writer:
        shapes, digest, at = matrices_of(layout, v.size), digest_of(reference), 0
        numbers: list[NDArray[Any]] = [np.empty(0, self.values)]
        scales: list[float] = []
        for shape in shapes:
            piece = v[at : at + shape[0] * shape[1]].astype(np.float64)
            if _factored(shape, self.rank):
                basis = _basis(reference if digest else None, at, shape, self.rank, self.side, digest)
                matrix = piece.reshape(shape)
                piece = np.einsum("ij,jk->ik", matrix.T if self.side else matrix, basis).reshape(-1)
            at += shape[0] * shape[1]
            numbers.append(self._stored(piece, scales))
        sections: list[NDArray[Any]] = [
            np.array(shapes, np.uint32).reshape(-1), np.array(scales, np.float32), np.concatenate(numbers),
        ]  # fmt: skip
        knobs = KNOBS.pack(self.rank, NUMBERS.index(self.values), self.side, digest)
        return filled(TAG_PROJECTION, v.size, sections, seed=seed, knobs=knobs, out=out)

    def _stored(self, piece: WideMatrix, scales: list[float]) -> NDArray[Any]:
        """Return the numbers as they travel, and note their scale."""
        most = float(np.abs(piece).max(initial=0.0))
        if not most <= LARGEST_SCALE:
            raise NonFiniteError(f"a number is above {LARGEST_SCALE:g}, too large for float32")
        if self.values == "float32":
            return piece.astype(np.float32)
        scales.append(float(np.float32(most / STEPS[self.values])))
        scaled = piece / scales[-1] if scales[-1] else np.zeros_like(piece)
        if self.values == "float16":
            return scaled.astype(np.float16)
        return np.clip(np.rint(scaled), -127, 127).astype(np.int8)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, 8.0 * self.max_bytes(vector.size, [vector.size] if layout is None else layout))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        width, scaled = np.dtype(self.values).itemsize, 0 if self.values == "float32" else 4
        if layout is None:
            return frame_size([8 * elements, scaled * elements, width * elements])
        shapes = matrices_of(layout, elements)
        numbers = sum(_length(shape, self.rank, self.side) for shape in shapes)
        return frame_size([8 * len(shapes), scaled * len(shapes), width * numbers])

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        rank, form, side, _ = KNOBS.unpack_from(header.knobs)
        values = NUMBERS[form] if form < len(NUMBERS) else form
        return knobs_differ(("rank", rank, self.rank), ("values", values, self.values), ("side", side, self.side))
