"""PowerSGD with a warm start (Vogels et al. 2019), as a package outside adagq would add it: one file.

    M ~ P Q^T,   P = orth(M Q'),   Q = M^T P,   Q' the last Q of this sender

Every tensor is seen as a matrix (first dimension x the rest) and travels as two factors where these are smaller.
The state holds the factors Q and, because low rank is biased, the residual of error feedback.
Frame: knobs are the rank (u32); sections are rows and columns of every tensor (u32), then the numbers (float32).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from adagq.codecs.codec import Encoder, knobs_differ
from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.sending import decode_own, encoded
from adagq.codecs.wire import frame_size
from adagq.codecs.writing import filled
from adagq.core.codec import LEVEL_BITS, Encoded
from adagq.core.errors import NonFiniteError, PayloadError
from adagq.core.seeds import generator
from adagq.core.vectors import Layout

TAG = 64
KNOBS = struct.Struct("<I")


def add_low_rank(frame, out, weight, threads) -> None:
    frame.expect_sections(2)
    (rank,) = KNOBS.unpack_from(frame.knobs)
    shapes = [(int(rows), int(columns)) for rows, columns in _pairs(frame.section(0, np.uint32))]
    numbers = frame.section(1, np.float32)
    if rank < 1 or sum(rows * columns for rows, columns in shapes) != frame.elements:
        raise PayloadError(f"rank {rank}, shapes of {len(shapes)} tensors for {frame.elements} elements")
    if numbers.size != sum(length for _, length, _ in _pieces(shapes, rank)) or not np.isfinite(numbers).all():
        raise PayloadError(f"{numbers.size} numbers do not fill the tensors, or one is not finite")
    vector = np.empty(frame.elements, np.float32)
    at = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for (rows, columns), (start, length, factored) in zip(shapes, _pieces(shapes, rank), strict=True):
            piece = numbers[start : start + length]
            if factored:
                left, right = piece[: rows * rank].reshape(rows, rank), piece[rows * rank :].reshape(columns, rank)
                piece = (left @ right.T).reshape(-1)
            vector[at : at + rows * columns] = piece
            at += rows * columns
    if not np.isfinite(vector).all():
        raise PayloadError("a product of factors is not finite")
    out += np.float32(weight) * vector


def _pairs(numbers: np.ndarray) -> np.ndarray:
    if numbers.size % 2:
        raise PayloadError(f"{numbers.size} numbers are no list of rows and columns")
    return numbers.reshape(-1, 2)


def _pieces(shapes: list[tuple[int, int]], rank: int) -> Iterator[tuple[int, int, bool]]:
    """(start, length, whether as factors) of every tensor's numbers."""
    start = 0
    for rows, columns in shapes:
        factored = rank * (rows + columns) < rows * columns
        length = rank * (rows + columns) if factored else rows * columns
        yield start, length, factored
        start += length


def _matrices(layout, elements: int) -> list[tuple[int, int]]:
    if layout is None:
        return [(elements, 1)] if elements else []
    shapes = layout.shapes if isinstance(layout, Layout) else [(int(size),) for size in layout]
    return [(prod(shape[:1]), prod(shape[1:])) for shape in shapes if prod(shape)]


@register("lowrank", tag=TAG, decoder=add_low_rank, examples=lambda: (LowRank(1), LowRank(4)))
@dataclass(frozen=True, slots=True)
class LowRank(Encoder):
    """Matrices as two factors of this rank, with error feedback and a warm start."""

    rank: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.rank, int) or not 1 <= self.rank < 2**16:
            raise ValueError(f"rank = {self.rank}, allowed are 1 to 65535")

    @property
    def unbiased(self) -> bool:
        return False

    def write(self, vector, seed, layout, threads, out):
        return self._factor(finite_vector(vector), {}, seed, layout, out)[0]

    def encode_with_state(self, vector, state, *, seed=0, layout=None, reference=None, budget_bytes=None) -> Encoded:
        v = finite_vector(vector + state["residual"] if state else vector)
        writer, factors = self._factor(v, state, seed, layout, None)
        payload = writer.finish()
        received = decode_own(payload, v.size)
        return encoded(payload, received, {"residual": v - received, "factors": factors}, self, v)

    def _factor(self, v, state, seed, layout, out):
        shapes, start, at = _matrices(layout, v.size), generator(seed, "lowrank"), 0
        numbers, kept, warm = [], [np.empty(0, np.float32)], 0
        for (rows, columns), (_, _, factored) in zip(shapes, _pieces(shapes, self.rank), strict=True):
            piece = v[at : at + rows * columns]
            at += piece.size
            if not factored:
                numbers.append(piece)
                continue
            matrix, size = piece.reshape(rows, columns).astype(np.float64), columns * self.rank
            last = state["factors"][warm : warm + size] if state else start.standard_normal(size)
            warm += size
            left = np.linalg.qr(matrix @ np.reshape(last, (columns, self.rank)))[0]
            right = (matrix.T @ left).astype(np.float32)
            if not np.isfinite(right).all():
                raise NonFiniteError("a factor is too large for float32")
            numbers += [left.astype(np.float32).reshape(-1), right.reshape(-1)]
            kept.append(right.reshape(-1))
        table = np.array(shapes, np.uint32).reshape(-1)
        numbers = np.concatenate([np.empty(0, np.float32), *numbers])
        writer = filled(TAG, v.size, [table, numbers], seed=seed, knobs=KNOBS.pack(self.rank), out=out)
        return writer, np.concatenate(kept)

    def rate_curve(self, vector, layout=None):
        return np.full(LEVEL_BITS, 8.0 * self.max_bytes(vector.size, layout or [vector.size]))

    def max_bytes(self, elements, layout=None) -> int:
        if layout is None:
            return frame_size([8 * elements, 4 * elements])
        shapes = _matrices(layout, elements)
        return frame_size([8 * len(shapes), 4 * sum(length for _, length, _ in _pieces(shapes, self.rank))])

    def knob_mismatch(self, header, fitted) -> str:
        return knobs_differ(("rank", KNOBS.unpack_from(header.knobs)[0], self.rank))
