"""The frame of QSGD and TernGrad: knobs, sizes, and the decoder.

Flags bit 0 = entropy-coded. Knobs: levels u32, bucket u32, granularity, norm, rounding, packing asked for u8.
Sections: tensor sizes (u32, tensor granularity only), scales (float32, one a span), then
  fixed     words (u32)
  entropy   model, segment lengths (u32 words), words (u16), raw low bits (u32)
"""

import struct
from typing import Final, Literal, NamedTuple

import numpy as np

import adagq.codecs.entropy as entropy
import adagq.codecs.spans as spans
from adagq.codecs.kernels.common import BLOCK, key_of
from adagq.codecs.kernels.fixed import decode_blocks
from adagq.codecs.parallel import even_bounds, run_pieces
from adagq.codecs.spans import Granularity
from adagq.codecs.wire import ALIGNMENT, Frame, Header, frame_size
from adagq.core.codec import MAX_LEVELS
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector

TAG_QSGD: Final = 3
TAG_TERNGRAD: Final = 5
KNOBS: Final = struct.Struct("<IIBBBB")
Norm = Literal["l2", "max"]
Rounding = Literal["stochastic", "dither"]
Packing = Literal["fixed", "entropy"]
NORMS: Final[tuple[Norm, ...]] = ("l2", "max")
ROUNDINGS: Final[tuple[Rounding, ...]] = ("stochastic", "dither")
PACKINGS: Final[tuple[Packing, ...]] = ("fixed", "entropy")
ENTROPY_FLAG: Final = 1
ENTROPY_SECTIONS: Final = 4  # where fixed packing has one


class Knobs(NamedTuple):
    """The knobs as they stand in the header."""

    levels: int
    bucket: int
    granularity: int
    norm: int
    rounding: int
    packing: int


def pack_knobs(levels: int, granularity: Granularity, norm: Norm, rounding: Rounding, packing: Packing) -> bytes:
    kind, bucket = spans.pack_granularity(granularity)
    return KNOBS.pack(levels, bucket, kind, NORMS.index(norm), ROUNDINGS.index(rounding), PACKINGS.index(packing))


def compare(header: Header, asked: bytes, fitted: bool) -> str:
    """Return what differs between the header's knobs and the packed ones that were asked for; "" if nothing does."""
    have, want = (Knobs(*KNOBS.unpack_from(knobs)) for knobs in (header.knobs, asked))
    if have[1:3] != want[1:3]:
        actual, wanted = (spans.granularity_name(knobs.granularity, knobs.bucket) for knobs in (have, want))
        return f"granularity {actual}, asked for was {wanted}"
    for name, names in (("norm", NORMS), ("rounding", ROUNDINGS), ("packing", PACKINGS)):
        actual, wanted = getattr(have, name), getattr(want, name)
        if actual != wanted:
            return f"{name} {names[actual] if actual < 2 else actual}, asked for was {names[wanted]}"
    if header.flags & ENTROPY_FLAG and not want.packing:
        return "an entropy-coded payload, asked for was packing fixed"
    if have.levels != want.levels and not fitted:
        return f"levels = {have.levels}, asked for were {want.levels}"
    return "" if 1 <= have.levels <= MAX_LEVELS else f"levels = {have.levels}, allowed are 1 to {MAX_LEVELS}"


def width_of(levels: int) -> int:
    """Return the bits of one element at fixed packing: ceil(log2(2 s + 1))."""
    return (2 * levels).bit_length()


def code_bytes(elements: int, levels: int) -> int:
    """Return the bytes that the codes take at fixed packing."""
    return 4 * -(-elements * width_of(levels) // 32)


def max_frame_bytes(head: list[int], elements: int, levels: int) -> int:
    """Return the longest frame behind these head sections: entropy-coded sections never pass the fixed ones."""
    others = ENTROPY_SECTIONS - 1
    return frame_size([*head, code_bytes(elements, levels), *[0] * others]) + others * (ALIGNMENT - 1)


def add_qsgd(frame: Frame, out: FloatVector, weight: float, threads: int) -> None:
    """Check the frame, then add its vector to `out`."""
    knobs = Knobs(*KNOBS.unpack_from(frame.knobs))
    levels = knobs.levels
    if not 1 <= levels <= MAX_LEVELS:
        raise PayloadError(f"levels = {levels}, allowed are 1 to {MAX_LEVELS}")
    if knobs.norm > 1 or knobs.rounding > 1 or knobs.packing > 1:
        raise PayloadError("knobs out of range: norm, rounding or packing")
    coded = bool(frame.flags & ENTROPY_FLAG)
    tensor = int(knobs.granularity == 1)
    frame.expect_sections(tensor + 1 + (ENTROPY_SECTIONS if coded else 1))
    code_sizes = [section.nbytes for section in frame.sections[tensor + 1 :]]
    if sum(code_sizes) > (most := code_bytes(frame.elements, levels)):
        raise PayloadError(
            f"{sum(code_sizes)} bytes of codes, at most {most} are allowed for {frame.elements} elements"
        )
    starts, scales = spans.read_scales(frame, knobs.granularity, knobs.bucket)
    rounding, key = ROUNDINGS[knobs.rounding], key_of(frame.seed)
    steps = scales.astype(np.float64) * (weight / levels)
    if coded:
        sections = (
            frame.section(tensor + 1, np.uint8),
            *(frame.section(tensor + 2 + k, t) for k, t in enumerate((np.uint32, np.uint16, np.uint32))),
        )
        entropy.add(sections, starts, steps, levels, rounding, key, out, threads)
        return
    words = frame.section(tensor + 1, np.uint32)
    if words.nbytes != code_bytes(frame.elements, levels):
        raise PayloadError(f"{words.nbytes} bytes of codes, {code_bytes(frame.elements, levels)} are needed")
    small, width, dither = steps.astype(np.float32), width_of(levels), rounding == "dither"
    run_pieces(
        lambda lo, hi: decode_blocks(words, starts, small, np.int32(levels), dither, key, width, lo, hi, out),
        even_bounds(-(-frame.elements // BLOCK), threads),
        threads,
    )
