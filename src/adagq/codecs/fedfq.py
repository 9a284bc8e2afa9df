"""FedFQ (Li et al. 2024): 0, 2, 4 or 8 bits for every single parameter, and the map that says which.

    |x| < step / 2 -> 0 bits;   < 3/2 step -> 2;   < 15/2 step -> 4;   else 8

A number of b bits is one of 2^(b-1) - 1 steps on either side of 0, and a class's scale is its largest magnitude, so all
classes have about the same step: the least squared error for a sum of bits. The step is the smallest at which the
numbers take at most `bits` bits a parameter on average. Rounded up or down by chance; what has no bits is lost, so it
is biased. The paper finds its map by simulated annealing and counts the numbers alone; the receiver needs the map, so
it travels: the gaps between entries with bits are entropy coded as Top-k's, each entry's class takes two bits.
Frame: knobs are the bits f32, the shift of the gaps u8, three bytes of zero, gaps u32. Sections: entries with bits u32
and the scales of the classes (f32), then as Top-k's coded indices, then classes, then the codes of each class.
"""

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.bits import pack_bits, packed_bytes, unpack_bits
from adagq.codecs.codec import Encoder, knobs_differ
from adagq.codecs.inputs import finite_vector
from adagq.codecs.registry import register
from adagq.codecs.spans import LARGEST_SCALE
from adagq.codecs.topk import MAX_SHIFT, decode_gaps, encode_gaps, max_gap_bytes
from adagq.codecs.wire import Frame, Header, frame_size
from adagq.codecs.writing import Writer, filled
from adagq.core.codec import LEVEL_BITS, LayoutLike, Out
from adagq.core.errors import NonFiniteError, PayloadError
from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector

TAG_FEDFQ: Final = 18
KNOBS: Final = struct.Struct("<fBxxxI")
HEAD: Final = struct.Struct("<Ifff")
WIDTHS: Final = (2, 4, 8)  # of the classes 0, 1 and 2
STEPS: Final = np.array([1.0, 7.0, 127.0])
EDGES: Final = (0.5, 1.5, 7.5)  # in steps: from here on 2, 4 and 8 bits
HALVINGS: Final = 60  # of the interval in which the step is looked for


def add_fedfq(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    bits, shift, gaps = KNOBS.unpack_from(frame.knobs)
    if not frame.sections or frame.sections[0].size != HEAD.size:
        raise PayloadError("payload holds no number of entries")
    kept, *scales = HEAD.unpack(frame.sections[0].tobytes())
    if not 0.0 < bits <= 8.0 or shift > MAX_SHIFT or kept > frame.elements:
        raise PayloadError(f"out of range: bits {bits}, shift {shift} or {kept} entries")
    if not all(0.0 <= scale <= LARGEST_SCALE for scale in scales):
        raise PayloadError(f"a scale is not a number from 0 to {LARGEST_SCALE:g}")
    frame.expect_sections(8 if kept else 1)
    if not kept:
        return
    classes = unpack_bits(frame.sections[4], kept, 2)
    if int(classes.max()) >= len(WIDTHS):
        raise PayloadError("an entry of class 3: there are classes 0 to 2")
    values = np.empty(kept)
    for kind, (width, scale) in enumerate(zip(WIDTHS, scales, strict=True)):
        mine = classes == kind
        codes = unpack_bits(frame.sections[5 + kind], int(mine.sum()), width)
        if codes.size and int(codes.max()) > 2 * STEPS[kind]:
            raise PayloadError(f"a code of {int(codes.max())}, at most {int(2 * STEPS[kind])} is allowed")
        values[mine] = (codes.astype(np.float64) - STEPS[kind]) * (scale / STEPS[kind])
    indices = decode_gaps(frame, shift, gaps, kept)
    out[indices] += np.float32(weight) * values.astype(np.float32)


@register("fedfq", tag=TAG_FEDFQ, decoder=add_fedfq, examples=lambda: (FedFQ(), FedFQ(0.1), FedFQ(8.0)))
@dataclass(frozen=True, slots=True)
class FedFQ(Encoder):
    """Few bits for small entries, many for large ones, `bits` on average without the map.

    >>> FedFQ(1.75).classes(np.array([0.1, 1.0, -2.0, 100.0, 0.0, 0.0, 0.0, 0.0], np.float32)).tolist()
    [-1, 0, 1, 2, -1, -1, -1, -1]
    """

    bits: float = 1.0

    def __post_init__(self) -> None:
        if not 1e-3 <= self.bits <= 8.0:
            raise ValueError(f"bits = {self.bits}, allowed are 0.001 to 8")

    @property
    def unbiased(self) -> bool:
        return False

    def classes(self, x: FloatVector) -> NDArray[np.int8]:
        """Return the class of every entry: -1 for no bits, 0 to 2 for 2, 4 and 8."""
        sizes = np.sort(np.abs(x[x != 0]).astype(np.float64))
        if not sizes.size:
            return np.full(x.size, -1, np.int8)
        allowed = self.bits * x.size
        low, high = 0.0, 4.0 * float(sizes[-1])  # at `high` nothing has bits
        for _ in range(HALVINGS):
            step = (low + high) / 2
            first = np.searchsorted(sizes, [edge * step for edge in EDGES])
            spent = 2 * (sizes.size - first[0]) + 2 * (sizes.size - first[1]) + 4 * (sizes.size - first[2])
            low, high = (low, step) if spent <= allowed else (step, high)
        magnitudes = np.abs(x).astype(np.float64)
        found = np.searchsorted([edge * high for edge in EDGES], magnitudes, side="right") - 1
        return np.where(magnitudes > 0, found, -1).astype(np.int8)

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        x = finite_vector(vector)
        classes = self.classes(x)
        indices = np.flatnonzero(classes >= 0).astype(np.uint32)
        kept, mine = x[indices].astype(np.float64), classes[indices]
        scales = [float(np.abs(kept[mine == kind]).max(initial=0.0)) for kind in range(len(WIDTHS))]
        if max(scales) > LARGEST_SCALE:
            raise NonFiniteError(f"a number is above {LARGEST_SCALE:g}, too large for float32")
        head = HEAD.pack(indices.size, *scales)
        if not indices.size:
            return filled(TAG_FEDFQ, x.size, [head], seed=seed, knobs=KNOBS.pack(self.bits, 0, 0), out=out)
        draws = generator(seed, "fedfq").random(indices.size)
        codes = []
        for kind, (width, scale) in enumerate(zip(WIDTHS, scales, strict=True)):
            places = kept[mine == kind] / (scale or 1.0) * STEPS[kind] + STEPS[kind]
            rounded = np.floor(places + draws[mine == kind])
            codes.append(pack_bits(np.clip(rounded, 0, 2 * STEPS[kind]), width))
        shift, gaps, coded = encode_gaps(indices)
        sections = [head, *coded, pack_bits(mine, 2), *codes]
        return filled(TAG_FEDFQ, x.size, sections, seed=seed, knobs=KNOBS.pack(self.bits, shift, gaps), out=out)

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        return np.full(LEVEL_BITS, 8.0 * len(self.encode(vector, 0, layout)))

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        kept = min(elements, int(self.bits * elements / 2) + 1)
        numbers = int(self.bits * elements / 8) + 16
        codes = [packed_bytes(kept, 2), numbers, numbers, numbers]
        return frame_size([HEAD.size, *max_gap_bytes(kept, elements), *codes])

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        bits, *_ = KNOBS.unpack_from(header.knobs)
        return knobs_differ(("bits", np.float32(bits), np.float32(self.bits)))
