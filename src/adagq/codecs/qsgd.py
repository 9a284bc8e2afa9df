"""QSGD and its kin: levels on a uniform lattice, packed at fixed width or entropy-coded.

    Q_s(v_j) = scale * sign(v_j) * (l + B) / s,   l = floor(|v_j| s / scale),   B ~ Bernoulli(|v_j| s / scale - l)

(Alistarh et al. 2017). `rounding="dither"` is subtractive dither: q = floor(v s / scale + u), decoded as
(q - u + 1/2) scale / s with the same u, drawn from the seed on both sides. It is unbiased as well and, above about
half a bit per element, has half the error; chunks where nearly everything rounds to zero fall back to stochastic
rounding on half the step. See docs/codecs.md for the measurements.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import adagq.codecs.entropy as entropy
import adagq.codecs.spans as spans
from adagq.codecs.codec import Encoder
from adagq.codecs.inputs import Scan, scan_norms, scan_vector, vector_of
from adagq.codecs.kernels.common import BLOCK, key_of
from adagq.codecs.kernels.fixed import encode_blocks
from adagq.codecs.parallel import even_bounds, run_pieces
from adagq.codecs.qsgd_frame import (
    ENTROPY_FLAG,
    NORMS,
    PACKINGS,
    ROUNDINGS,
    TAG_QSGD,
    Norm,
    Packing,
    Rounding,
    add_qsgd,
    code_bytes,
    compare,
    max_frame_bytes,
    pack_knobs,
    width_of,
)
from adagq.codecs.registry import register
from adagq.codecs.wire import SEED_MASK, Header, frame_size
from adagq.codecs.writing import Writer
from adagq.core.codec import LEVEL_BITS, MAX_LEVELS, Codec, LayoutLike, Out
from adagq.core.errors import NonFiniteError
from adagq.core.vectors import FloatVector

SMALLEST_SCALE: Final = 1e-30  # below it a span is lifted by a power of two while it is encoded
LIFT: Final = 2.0**100
FILL: Final = 0.99  # of a budget: what a prediction from a sample may be off by
CLOSE: Final = 0.985  # of what may be filled: near enough to stop looking


def _examples() -> tuple[Codec, ...]:
    knobs = product((1, 3, 16, 255, 4095, 65535), spans.EXAMPLES, NORMS, ROUNDINGS, PACKINGS)
    return tuple(QSGD(*values) for values in knobs)


@register("qsgd", tag=TAG_QSGD, decoder=add_qsgd, examples=_examples)
@dataclass(frozen=True, slots=True)
class QSGD(Encoder):
    """Quantize to `levels` steps of the scale of each span; unbiased.

    >>> from adagq.codecs import decode
    >>> v = np.linspace(-1, 1, 1000, dtype=np.float32)
    >>> payload = QSGD(levels=15, norm="max").encode(v, seed=7)
    >>> float(np.abs(decode(payload) - v).max()) <= 1 / 15 + 1e-6
    True
    """

    levels: int = 255
    granularity: spans.Granularity = "vector"
    norm: Norm = "l2"
    rounding: Rounding = "stochastic"
    packing: Packing = "entropy"

    def __post_init__(self) -> None:
        if not isinstance(self.levels, int | np.integer) or not 1 <= self.levels <= MAX_LEVELS:
            raise ValueError(f"levels = {self.levels}, allowed are 1 to {MAX_LEVELS}")
        spans.check_granularity(self.granularity)
        for name, allowed in (("norm", NORMS), ("rounding", ROUNDINGS), ("packing", PACKINGS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} = {getattr(self, name)!r}, allowed are {', '.join(allowed)}")

    @property
    def unbiased(self) -> bool:
        return True

    def with_levels(self, levels: int) -> "QSGD":
        return replace(self, levels=levels)

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        return max_frame_bytes(spans.max_head_bytes(self.granularity, elements, layout), elements, MAX_LEVELS)

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        return compare(header, self._knobs(), fitted)

    def _knobs(self) -> bytes:
        return pack_knobs(self.levels, self.granularity, self.norm, self.rounding, self.packing)

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        return self.write_as(TAG_QSGD, vector, seed, layout, threads, out)

    def write_as(
        self, tag: int, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None
    ) -> Writer:
        """Return the filled frame with the tag of a codec that is QSGD with knobs of its own."""
        prepared = self._prepare(vector, layout, threads)
        key = key_of(seed & SEED_MASK)  # as the decoder reads it off the frame
        if prepared.scan and prepared.x.size:
            coded = entropy.encode(
                prepared.x, prepared.scan.chunks, prepared.scan.magnitudes,
                self._inverses(prepared)[prepared.scan.chunks.spans], self.levels, self.rounding, key, threads,
                limit_bytes=code_bytes(prepared.x.size, self.levels),
            )  # fmt: skip
            if coded is not None:
                writer, at = self._begin(tag, prepared, seed, ENTROPY_FLAG, coded.section_bytes, out)
                coded.fill([writer.section(at + k, np.uint8) for k in range(len(coded.section_bytes))])
                return writer
        writer, at = self._begin(tag, prepared, seed, 0, [code_bytes(prepared.x.size, self.levels)], out)
        self._pack(prepared, key, threads, writer.section(at, np.uint32))
        return writer

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        """Return the predicted payload bits at levels 2^b - 1, b = 1..16."""
        prepared = self._prepare(vector, layout, 1)
        return np.array(
            [replace(self, levels=2**b - 1)._predict(prepared) for b in range(1, LEVEL_BITS + 1)], np.float64
        )

    def predict(self, vector: NDArray[Any], layout: LayoutLike = None) -> float:
        """Return the predicted payload bits at this codec's levels."""
        return self._predict(self._prepare(vector, layout, 1))

    def fitted(self, vector: NDArray[Any], budget_bytes: int, layout: LayoutLike = None) -> "QSGD":
        """Return this codec with the most levels whose predicted payload stays within `budget_bytes`."""
        prepared = self._prepare(vector, layout, 1)
        limit = 8.0 * budget_bytes * (1.0 if self.packing == "fixed" else FILL)
        low, high = 1, MAX_LEVELS + 1  # low fits or is the least there is; high does not fit
        guess = self.levels
        while True:
            bits = replace(self, levels=guess)._predict(prepared)
            low, high = (guess, high) if bits <= limit else (low, guess)
            close = self.packing == "entropy" and CLOSE * limit <= bits <= limit
            if high - low <= (1 if self.packing == "fixed" else max(1, low // 256)) or close:
                return replace(self, levels=low)
            # Where most elements are zero bits grow with the levels, elsewhere by one an element with each doubling.
            doublings = min((limit - bits) / max(prepared.x.size, 1), LEVEL_BITS)
            factor = limit / bits if bits < prepared.x.size else 2.0**doublings
            guess = min(max(round(guess * min(factor, MAX_LEVELS)), low + 1), high - 1)
            if not low * (high / low) ** 0.05 < guess < low * (high / low) ** 0.95 and high <= MAX_LEVELS:
                guess = min(max(round((low * high) ** 0.5), low + 1), high - 1)

    def _prepare(self, vector: NDArray[Any], layout: LayoutLike, threads: int) -> "_Prepared":
        x = vector_of(vector)
        sizes = spans.tensor_sizes(layout, x.size) if self.granularity == "tensor" else None
        starts = spans.span_starts(self.granularity, x.size, sizes)
        exact, scan = self._norms(x, starts, threads)
        lifted = (exact > 0.0) & (exact < SMALLEST_SCALE)
        if lifted.any():
            x = (x * np.repeat(np.where(lifted, LIFT, 1.0), np.diff(starts))).astype(np.float32)
            exact, scan = self._norms(x, starts, threads)
        if exact.max(initial=0.0) > spans.LARGEST_SCALE:
            raise NonFiniteError(
                f"the vector's {self.norm} norm is above {spans.LARGEST_SCALE:g}, too large for float32"
            )
        scales = exact.astype(np.float32)
        scales = np.where(scales < exact, np.nextafter(scales, np.float32(np.inf)), scales).astype(np.float32)
        return _Prepared(x, sizes, starts, scan, scales, lifted)

    def _norms(
        self, x: FloatVector, starts: NDArray[np.int64], threads: int
    ) -> tuple[NDArray[np.float64], Scan | None]:
        """Return the norm of each span; fixed packing needs no more, entropy packing the whole scan."""
        if self.packing == "fixed":
            return scan_norms(x, starts, self.norm, threads), None
        scan = scan_vector(x, starts, threads)
        return (scan.norms if self.norm == "l2" else scan.largests), scan

    def _inverses(self, prepared: "_Prepared") -> NDArray[np.float32]:
        scales = prepared.scales.astype(np.float64)
        return np.divide(self.levels, scales, out=np.zeros_like(scales), where=scales > 0).astype(np.float32)

    def _pack(self, prepared: "_Prepared", key: np.uint32, threads: int, words: NDArray[np.uint32]) -> None:
        x, inverses, width = prepared.x, self._inverses(prepared), width_of(self.levels)
        dither = self.rounding == "dither"
        run_pieces(
            lambda lo, hi: encode_blocks(
                x, prepared.starts, inverses, np.int32(self.levels), dither, key, width, lo, hi, words
            ),
            even_bounds(-(-x.size // BLOCK), threads),
            threads,
        )

    def _begin(
        self, tag: int, prepared: "_Prepared", seed: int, flags: int, coded_bytes: list[int], out: Out | None
    ) -> tuple[Writer, int]:
        """Return the frame with sizes and scales filled in, and the index of the first section behind them."""
        scales = (prepared.scales / np.where(prepared.lifted, LIFT, 1.0)).astype(np.float32)
        head = [*spans.size_section(prepared.sizes), scales]
        lengths = [*(s.nbytes for s in head), *coded_bytes]
        writer = Writer(tag, prepared.x.size, lengths, flags=flags, seed=seed, knobs=self._knobs(), out=out)
        for index, section in enumerate(head):
            writer.section(index, section.dtype)[:] = section
        return writer, len(head)

    def _predict(self, prepared: "_Prepared") -> float:
        head = [4 * s.size for s in (*spans.size_section(prepared.sizes), prepared.scales)]
        fixed = 8.0 * frame_size([*head, code_bytes(prepared.x.size, self.levels)])
        if prepared.scan is None or not prepared.x.size:
            return fixed
        coded = entropy.predict(
            prepared.x, prepared.scan.chunks, prepared.scan.magnitudes,
            self._inverses(prepared)[prepared.scan.chunks.spans], self.levels, self.rounding,
        )  # fmt: skip
        return min(fixed, 8.0 * frame_size([*head, 0, 4, 0, 0]) + coded)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What all encodings of one vector share."""

    x: FloatVector
    sizes: NDArray[np.int64] | None
    starts: NDArray[np.int64]
    scan: Scan | None  # None at fixed packing
    scales: NDArray[np.float32]
    lifted: NDArray[np.bool_]  # per span
