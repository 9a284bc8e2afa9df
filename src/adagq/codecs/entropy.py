"""Entropy packing of a quantized vector: model, segments, and the words they take."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.kernels import lattice
from adagq.codecs.kernels.entropy import decode_segments, encode_segment
from adagq.codecs.kernels.rans import DENSE_BITS, SEGMENTS, STATES, WORDS_PER_ELEMENT
from adagq.codecs.model import SAMPLE_CHUNKS, Model, learn, max_tables, step_divisors
from adagq.codecs.parallel import even_bounds, run_pieces
from adagq.codecs.spans import Chunks
from adagq.codecs.tables import encoding_table, read_model, slots_of, tokens_of, write_model
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector

SEGMENT_BITS = 2**19  # a segment of its own costs 12 bytes: long enough not to matter, short enough to share out
MAX_SEGMENTS = 64
WIDE_IN_STEP = 1 / 64  # share of tokens with raw bits from which a chunk is decoded faster by itself
PREDICT_CHUNKS = 48  # chunks of a class that a prediction looks at,
PREDICT_HITS = 1000  # or as many as hold this many non-zero symbols: few say little about a rare class


@dataclass(frozen=True, slots=True)
class Coded:
    """What entropy packing sends: the model, the words of each segment, and the raw low bits."""

    model: bytes
    segments: list[NDArray[np.uint16]]
    raw: NDArray[np.uint32]

    @property
    def section_bytes(self) -> list[int]:
        """Lengths of the sections: model, words in each segment, words, raw."""
        return [len(self.model), 4 * len(self.segments), sum(s.nbytes for s in self.segments), self.raw.nbytes]

    def fill(self, sections: list[NDArray[np.uint8]]) -> None:
        sections[0][:] = np.frombuffer(self.model, np.uint8)
        sections[1].view(np.uint32)[:] = [s.size for s in self.segments]
        np.concatenate(self.segments, out=sections[2].view(np.uint16))
        sections[3].view(np.uint32)[:] = self.raw


def encode(
    x: FloatVector,
    chunks: Chunks,
    magnitudes: NDArray[np.float64],
    inverses: NDArray[np.float32],
    levels: int,
    rounding: str,
    key: np.uint32,
    threads: int,
    limit_bytes: int,
) -> "Coded | None":
    """Return the sections' contents, or None if they would take more than `limit_bytes`."""
    model, bits = learn(x, chunks, magnitudes, inverses, levels, rounding, key, SAMPLE_CHUNKS)
    if bits > 8.2 * limit_bytes + 512 or len(model.freqs) > max_tables(x.size):
        return None
    divisors = step_divisors(model.families, rounding)
    coder = encoding_table(model.freqs)
    raw_at = model.raw_starts(chunks)
    raw = np.empty(int(raw_at[-1]), np.uint32)
    scaled = (inverses * divisors[model.classes]).astype(np.float32)
    limits = (levels * divisors).astype(np.int32)
    longest = int(chunks.sizes.max(initial=1))
    classes = model.classes.astype(np.int64)
    bounds = even_bounds(chunks.count, min(MAX_SEGMENTS, max(1, int(bits) // SEGMENT_BITS)))

    def segment(lo: int, hi: int) -> NDArray[np.uint16]:
        elements = int(chunks.starts[hi] - chunks.starts[lo])
        words = np.empty(WORDS_PER_ELEMENT * elements + 2 * STATES + 1, np.uint16)
        at = encode_segment(
            x, lo, hi, chunks.starts, classes, model.families, model.shifts, model.edges, model.group_counts,
            model.bases, scaled, limits, key, longest,
            coder, model.absent, raw_at, raw, words,
        )  # fmt: skip
        return words[at:].copy()  # not a view: it would keep the whole scratch alive

    segments = run_pieces(segment, bounds, threads)
    coded = Coded(write_model(model), segments, raw)
    return coded if sum(coded.section_bytes) <= limit_bytes else None


def predict(
    x: FloatVector,
    chunks: Chunks,
    magnitudes: NDArray[np.float64],
    inverses: NDArray[np.float32],
    levels: int,
    rounding: str,
) -> float:
    """Return the bits that `encode` would take, from a sample of the chunks."""
    model, bits = learn(x, chunks, magnitudes, inverses, levels, rounding, np.uint32(0), PREDICT_CHUNKS, PREDICT_HITS)
    segments = min(MAX_SEGMENTS, max(1, int(bits) // SEGMENT_BITS))
    return bits + 8.0 * len(write_model(model)) + segments * (32.0 + 24.0 * STATES)  # a state ends half full


def add(
    sections: tuple[NDArray[Any], ...],
    span_starts: NDArray[np.int64],
    steps: NDArray[np.float64],
    levels: int,
    rounding: str,
    key: np.uint32,
    out: FloatVector,
    threads: int,
) -> None:
    """Check the sections, then add their vector to `out`; steps are weight * scale / levels of each span."""
    head, lengths, words, raw = sections
    chunks = Chunks.of(span_starts)
    model = read_model(head.tobytes(), chunks)
    _check_streams(model, chunks, lengths, words, raw)
    divisors = step_divisors(model.families, rounding)
    chunk_steps = (steps[chunks.spans] / divisors[model.classes]).astype(np.float32)
    limits = (levels * divisors).astype(np.int32)
    dense = model.table_bits == DENSE_BITS
    in_step = (model.families != lattice.RARE) & (model.wide_shares < WIDE_IN_STEP)
    slots, tokens = slots_of(model.freqs[dense]), tokens_of(model.freqs[~dense])
    firsts = model.firsts[~dense].reshape(-1)
    raw_at = model.raw_starts(chunks)
    classes = model.classes.astype(np.int64)
    longest = int(chunks.sizes.max(initial=1))
    bounds = np.array([0, *(hi for _, hi in even_bounds(chunks.count, lengths.size))], np.int64)
    word_at = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    def segments(first: int, last: int) -> None:
        decode_segments(
            words, word_at, bounds, first, last, chunks.starts, classes, model.families, model.shifts, model.edges,
            model.group_counts, model.bases_by_kind, chunk_steps, limits, key, longest, slots, firsts,
            tokens, in_step, raw_at, raw, out,
        )  # fmt: skip

    runs = max(-(-lengths.size // SEGMENTS), min(threads, lengths.size))
    run_pieces(segments, even_bounds(lengths.size, runs), threads)


def _check_streams(model: Model, chunks: Chunks, lengths: NDArray[Any], words: NDArray[Any], raw: NDArray[Any]) -> None:
    if not 1 <= lengths.size <= min(MAX_SEGMENTS, chunks.count):
        raise PayloadError(f"{lengths.size} segments for {chunks.count} chunks")
    if int(lengths.min()) < 2 * STATES or int(lengths.sum(dtype=np.uint64)) != words.size:
        raise PayloadError(f"segments of {int(lengths.sum(dtype=np.uint64))} words, the payload has {words.size}")
    needed = int(model.raw_starts(chunks)[-1])
    if raw.size != needed:
        raise PayloadError(f"{raw.size} words of raw bits, {needed} are needed")
