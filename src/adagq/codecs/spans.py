"""Which elements share a scale (spans), and which share statistics (chunks)."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.kernels.common import BLOCK
from adagq.codecs.wire import Frame
from adagq.core.codec import LayoutLike
from adagq.core.errors import LayoutError, PayloadError
from adagq.core.vectors import Layout

Granularity = Literal["vector", "tensor"] | int  # what shares a scale; a number is a bucket length
EXAMPLES: Final[tuple[Granularity, ...]] = ("vector", "tensor", 500)
LARGEST_SCALE = 2e38  # leaves room for half a step of dither below float32's limit
SHORTEST_SPAN, MOST_SHORT_SPANS = 16, 8192
SMALL_VECTOR = 2**18  # shorter vectors get shorter chunks: there are few elements to learn statistics from
SMALL_CHUNK = 256


def tensor_sizes(layout: LayoutLike, elements: int) -> NDArray[np.int64]:
    """Return the tensor sizes of a layout, checked against the vector."""
    if layout is None:
        raise LayoutError('granularity "tensor" needs a layout (or a list of tensor sizes)')
    sizes = np.array(layout.sizes if isinstance(layout, Layout) else list(layout), np.int64)
    if sizes.sum() != elements or (sizes < 0).any():
        raise LayoutError(f"the layout describes {sizes.sum()} elements, the vector has {elements}")
    if (sizes >= 2**32).any():  # sizes travel as 32 bits
        raise LayoutError(f"a tensor of {sizes.max()} elements: with granularity tensor at most 2^32 - 1 are possible")
    return sizes[sizes > 0]


def max_spans(elements: int) -> int:
    """Return how many scales a vector may have: one for 16 elements, and some thousands for short ones.

    With less a scale costs more than it serves, and so would decoding: memory and time grow with the spans.
    """
    return MOST_SHORT_SPANS + elements // SHORTEST_SPAN


def span_starts(granularity: str | int, elements: int, sizes: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Return the boundaries of the runs of elements that share a scale: k spans, k + 1 numbers."""
    if elements == 0:
        return np.zeros(1, np.int64)
    if granularity == "tensor":
        assert sizes is not None
        _check_count(sizes.size, granularity, elements)
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    length = elements if granularity == "vector" else int(granularity)
    _check_count(-(-elements // length), granularity, elements)
    return np.append(np.arange(0, elements, length), elements).astype(np.int64)


def _check_count(spans: int, granularity: str | int, elements: int) -> None:
    if spans > (most := max_spans(elements)):
        raise LayoutError(
            f"granularity = {granularity}: {spans} spans for {elements} elements, at most {most} are allowed"
        )


def check_granularity(granularity: str | int) -> None:
    """Raise ValueError unless it is "vector", "tensor" or a bucket length."""
    if isinstance(granularity, str) and granularity not in ("vector", "tensor"):
        raise ValueError(f'granularity = {granularity!r}, allowed are "vector", "tensor" or a bucket length')
    if not isinstance(granularity, str) and not (isinstance(granularity, int) and 1 <= granularity < 2**32):
        raise ValueError(f"granularity = {granularity}, a bucket has 1 to 2^32 - 1 elements")


def pack_granularity(granularity: str | int) -> tuple[int, int]:
    """Return (kind, bucket length) as they stand in the knobs: 0 vector, 1 tensor, 2 bucket."""
    return (2, granularity) if isinstance(granularity, int) else (("vector", "tensor").index(granularity), 0)


def granularity_name(kind: int, bucket: int) -> str:
    """Return the granularity that stands in the knobs, for messages."""
    return f"bucket {bucket}" if kind == 2 else ("vector", "tensor")[kind] if kind < 2 else f"kind {kind}"


def max_head_bytes(granularity: str | int, elements: int, layout: LayoutLike) -> list[int]:
    """Return the lengths of the sections before the codes: sizes and scales. Without a layout: at worst."""
    if granularity == "tensor":
        tensors = elements if layout is None else tensor_sizes(layout, elements).size
        spans = min(tensors, max_spans(elements))
        return [4 * spans, 4 * spans]
    if granularity == "vector":
        return [4 * int(elements > 0)]
    return [4 * min(-(-elements // int(granularity)), max_spans(elements))]


def size_section(sizes: NDArray[np.int64] | None) -> list[NDArray[np.uint32]]:
    """Tensor sizes travel in a section of their own, before the scales; other granularities need none."""
    return [] if sizes is None else [sizes.astype(np.uint32)]


def read_scales(frame: Frame, kind: int, bucket: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return span boundaries and scales of a frame, checked; they are its first sections."""
    if kind > 2 or (kind == 2) != (bucket > 0):
        raise PayloadError(f"granularity {kind} with bucket length {bucket}")
    scales = frame.section(int(kind == 1), np.float32)
    sizes = None
    if scales.size > (most := max_spans(frame.elements)):
        raise PayloadError(f"{scales.size} scales for {frame.elements} elements, at most {most} are allowed")
    if kind == 1:
        if frame.sections[0].nbytes != scales.nbytes:
            raise PayloadError(f"{scales.size} scales for {frame.sections[0].nbytes // 4} spans")
        sizes = frame.section(0, np.uint32).astype(np.int64)
        if sizes.sum() != frame.elements or (sizes == 0).any():
            raise PayloadError(f"tensor sizes add up to {sizes.sum()}, the header says {frame.elements} elements")
    count = -(-frame.elements // (bucket or max(frame.elements, 1))) if sizes is None else sizes.size
    if scales.size != count:  # before the boundaries are made: a forged bucket length may ask for any number
        raise PayloadError(f"{scales.size} scales for {count} spans")
    starts = span_starts("vector" if kind == 0 else "tensor" if kind == 1 else bucket, frame.elements, sizes)
    if not (scales >= 0).all() or not (scales <= LARGEST_SCALE).all():
        raise PayloadError(f"a scale is not a number from 0 to {LARGEST_SCALE:g}")
    return starts, scales


@dataclass(frozen=True)
class Chunks:
    """Runs of at most 2,048 elements inside one span: what the entropy coder adapts to."""

    starts: NDArray[np.int64]
    spans: NDArray[np.int64]  # the span of each chunk

    @classmethod
    def of(cls, starts: NDArray[np.int64]) -> "Chunks":
        length = BLOCK if starts[-1] >= SMALL_VECTOR else SMALL_CHUNK
        sizes = np.diff(starts)
        pieces = -(-sizes // length)
        spans = np.repeat(np.arange(sizes.size), pieces)
        nth = np.arange(spans.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        begins = starts[spans] + nth * length if spans.size else np.zeros(0, np.int64)
        return cls(np.append(begins, starts[-1]).astype(np.int64), spans.astype(np.int64))

    @property
    def count(self) -> int:
        return self.spans.size

    @property
    def elements(self) -> int:
        return int(self.starts[-1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.starts)
