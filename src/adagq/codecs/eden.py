"""EDEN (Vargaftik et al. 2022; with one bit DRIVE): rotate at random, quantize to the Gaussian's centroids, rescale.

    z = H D x / sqrt(n);   c_j the centroid nearest to z_j sqrt(n) / ||x||;   x' = D H (S c) / sqrt(n)
    S = ||x||^2 / <z, c>   so that <x, x'> = ||x||^2

D are random signs from the payload's seed, H is Hadamard's matrix. Under a uniformly random rotation this S makes x'
unbiased; Hadamard's is not uniform, so the codec does not claim it. The vector is cut into blocks whose lengths are
powers of two, the largest that fit and at most 2^14; less than 64 elements at the end are padded to 64.
Frame: knobs are the bits u8; sections: S of every block (float32), codes of `bits` bits.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.bits import pack_bits, packed_bytes, unpack_bits
from adagq.codecs.codec import Encoder, knobs_differ
from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.wire import SEED_MASK, Frame, Header, frame_size
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, LayoutLike, Out
from adagq.core.errors import NonFiniteError, PayloadError
from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector

TAG_EDEN: Final = 9
KNOBS: Final = struct.Struct("<B")
SHORTEST, LONGEST = 64, 2**14
LARGEST_SCALE: Final = 3.4e38 / (2.8 * LONGEST**0.5)  # no sum of centroids leaves float32
# Lloyd and Max's quantizer of the standard normal, its positive half.
CENTROIDS: Final[dict[int, tuple[float, ...]]] = {
    1: (0.79788456,),
    2: (0.45278004, 1.51041761),
    3: (0.24509418, 0.75600528, 1.34390926, 2.15194570),
    4: (0.12839501, 0.38804823, 0.65675914, 0.94234053, 1.25623124, 1.61804643, 2.06901732, 2.73263588),
}
FEW: Final = 8  # entries: shorter runs are better added up place by place


def table_of(bits: int) -> NDArray[np.float64]:
    """Return all centroids in rising order."""
    half = np.array(CENTROIDS[bits])
    return np.concatenate([-half[::-1], half])


def blocks_of(elements: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first element, blocks, their length): runs of equal blocks; the last one may reach past the end."""
    at = 0
    while at < elements:
        length = min(max(1 << (elements - at).bit_length() - 1, SHORTEST), LONGEST)
        count = max((elements - at) // length, 1)
        yield at, count, length
        at += count * length


def _padded(elements: int) -> tuple[int, int]:
    """Return (blocks, codes)."""
    runs = list(blocks_of(elements))
    return sum(count for _, count, _ in runs), sum(count * length for _, count, length in runs)


def hadamard(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return every row times Hadamard's matrix over the root of its length: its own inverse."""
    count, length = rows.shape
    half = 1
    while half < length:
        pairs = rows.reshape(count, length // (2 * half), 2, half)
        turned = np.empty_like(pairs)
        if half < FEW:  # numpy goes along the last axis, which is short: take turns with the others instead
            for place in range(half):
                np.add(pairs[:, :, 0, place], pairs[:, :, 1, place], out=turned[:, :, 0, place])
                np.subtract(pairs[:, :, 0, place], pairs[:, :, 1, place], out=turned[:, :, 1, place])
        else:
            np.add(pairs[:, :, 0], pairs[:, :, 1], out=turned[:, :, 0])
            np.subtract(pairs[:, :, 0], pairs[:, :, 1], out=turned[:, :, 1])
        rows = turned
        half *= 2
    return rows.reshape(count, length) * float(length**-0.5)


def _signs(seed: int, count: int) -> NDArray[np.float64]:
    drawn = np.frombuffer(generator(seed, "eden").bytes(-(-count // 8)), np.uint8)
    return np.where(np.unpackbits(drawn, count=count), -1.0, 1.0).astype(np.float64)


def add_eden(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    (bits,) = KNOBS.unpack_from(frame.knobs)
    frame.expect_sections(2)
    if bits not in CENTROIDS:
        raise PayloadError(f"bits = {bits}, allowed are 1 to 4")
    scales = frame.section(0, np.float32)
    blocks, codes = _padded(frame.elements)
    if scales.size != blocks or not (scales >= 0).all() or not (scales <= LARGEST_SCALE).all():
        raise PayloadError(f"{scales.size} scales for {blocks} blocks, or one is not from 0 to {LARGEST_SCALE:.3g}")
    points = table_of(bits)[unpack_bits(frame.sections[1], codes, bits)]
    signs, block = _signs(frame.seed, codes), 0
    for at, count, length in blocks_of(frame.elements):
        piece = slice(at, at + count * length)
        rows = points[piece].reshape(count, length) * scales[block : block + count, None].astype(np.float64)
        decoded = hadamard(rows).reshape(-1) * signs[piece]
        kept = out[piece]
        kept += np.float32(weight) * decoded[: kept.size].astype(np.float32)
        block += count


@register("eden", tag=TAG_EDEN, decoder=add_eden, examples=lambda: tuple(Eden(bits) for bits in CENTROIDS))
@dataclass(frozen=True, slots=True)
class Eden(Encoder):
    """`bits` bits an entry after a random rotation, one scale a block of up to 16,384 entries.

    >>> from adagq.codecs import decode
    >>> x = np.ones(4096, np.float32)
    >>> abs(float(np.mean(decode(Eden(4).encode(x)))) - 1) < 0.01
    True
    """

    bits: int = 2

    def __post_init__(self) -> None:
        if self.bits not in CENTROIDS or isinstance(self.bits, bool):
            raise ValueError(f"bits = {self.bits!r}, allowed are 1 to 4")

    @property
    def unbiased(self) -> bool:
        return False

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        x = finite_vector(vector)
        _, count = _padded(x.size)
        table = table_of(self.bits)
        cuts, signs = (table[1:] + table[:-1]) / 2, _signs(seed & SEED_MASK, count)
        wide = np.zeros(count)
        wide[: x.size] = x
        codes, scales = np.empty(count, np.uint8), []
        for at, number, length in blocks_of(x.size):
            piece = slice(at, at + number * length)
            rotated = hadamard((wide[piece] * signs[piece]).reshape(number, length))
            norms = np.sqrt(np.sum(rotated**2, axis=1))
            unit = rotated * (np.sqrt(length) / np.where(norms > 0, norms, 1.0))[:, None]
            code = np.searchsorted(cuts, unit.reshape(-1)).astype(np.uint8)
            likeness = np.sum(unit * table[code].reshape(number, length), axis=1)
            scales.append(np.where(norms > 0, norms * np.sqrt(length) / np.where(norms > 0, likeness, 1.0), 0.0))
            codes[piece] = code
        scale = np.concatenate([np.zeros(0), *scales])
        if scale.size and not scale.max() <= LARGEST_SCALE:
            raise NonFiniteError(f"a block's scale is above {LARGEST_SCALE:.3g}, too large for float32")
        sections: list[NDArray[Any]] = [scale.astype(np.float32), pack_bits(codes, self.bits)]
        return filled(TAG_EDEN, x.size, sections, seed=seed, knobs=KNOBS.pack(self.bits), out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, 8.0 * self.max_bytes(vector.size))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        blocks, codes = _padded(elements)
        return frame_size([4 * blocks, packed_bytes(codes, self.bits)])

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        return knobs_differ(("bits", KNOBS.unpack_from(header.knobs)[0], self.bits))
