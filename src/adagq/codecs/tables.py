"""A model as bytes, and frequency tables as the kernels want them. All that is read is checked."""

import zlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.kernels import lattice
from adagq.codecs.kernels.rans import DENSE_BITS
from adagq.codecs.kernels.tables import (
    ENDS_EARLY,
    NOT_A_FREQUENCY,
    NOT_A_RUN,
    NOT_A_SUM,
    NUMBER_BYTES,
    fill_slots,
    pack_table,
    unpack_table,
)
from adagq.codecs.kernels.tokens import TOKENS
from adagq.codecs.model import PHASES_OF, ROW, Model, max_tables, slot_bits
from adagq.codecs.spans import Chunks
from adagq.core.errors import PayloadError

MAX_TABLE_BYTES: Final = NUMBER_BYTES * TOKENS

TABLE_ERRORS: Final = {
    ENDS_EARLY: "ends early",
    NOT_A_FREQUENCY: "holds a frequency that is too large, or one token takes all",
    NOT_A_RUN: f"leaves out none or more than its {TOKENS} tokens",
    NOT_A_SUM: "does not add up to its slots",
}


def write_model(model: Model) -> bytes:
    """Serialise: number of classes, per class family, shift and phase groups, all tables, then the chunks' classes."""
    out = bytearray([model.families.size])
    for family, shift, lengths in zip(model.families, model.shifts, model.groups, strict=True):
        out += bytes([int(family), int(shift), len(lengths), *lengths])
    for table in model.freqs:
        out += write_table(table)
    if model.families.size > 1:
        out += zlib.compress(model.classes.tobytes(), 9)
    return bytes(out)


def write_table(table: NDArray[np.uint32]) -> bytes:
    """Return frequencies as numbers of seven bits a byte; a zero is followed by how many tokens are not used."""
    out = np.empty(MAX_TABLE_BYTES, np.uint8)
    return out[: pack_table(table[:TOKENS], out)].tobytes()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self, what: str, low: int = 0, high: int = 255) -> int:
        if self.at >= len(self.data):
            raise PayloadError(f"the model ends before its {what}")
        value = self.data[self.at]
        self.at += 1
        if not low <= value <= high:
            raise PayloadError(f"the model's {what} is {value}, allowed are {low} to {high}")
        return value


def read_model(data: bytes, chunks: Chunks) -> Model:
    """Undo `write_model`; everything is checked, so that decoding with the model cannot fail."""
    reader = _Reader(data)
    count = reader.byte("class count", 1, min(255, max(chunks.count, 1)))
    families, shifts = np.zeros(count, np.int64), np.zeros(count, np.int64)
    groups = []
    for c in range(count):
        families[c] = reader.byte("family", 0, lattice.RARE)
        shifts[c] = reader.byte("shift", 0, 16)
        phases = PHASES_OF[int(families[c])]
        lengths: list[int] = []
        for _ in range(reader.byte("group count", 1, lattice.GROUPS)):
            lengths.append(reader.byte("group length", 1, phases - sum(lengths)))
        if sum(lengths) != phases:
            raise PayloadError(f"the groups of class {c} cover {sum(lengths)} of {phases} phases")
        groups.append(tuple(lengths))
    tables = sum(len(lengths) for lengths in groups)
    if tables > (most := max_tables(chunks.elements)):
        raise PayloadError(f"{tables} frequency tables for {chunks.elements} elements, at most {most} are allowed")
    bits = np.repeat(slot_bits(families), [len(lengths) for lengths in groups])
    freqs = np.zeros((tables, ROW), np.uint32)
    at = _read_tables(data, reader.at, bits, freqs)
    rest = data[at:]
    if count == 1:
        classes = np.zeros(chunks.count, np.uint8)
    else:
        classes = _read_classes(rest, chunks.count, count)
        rest = b""
    if rest:
        raise PayloadError(f"{len(rest)} bytes follow the model")
    return Model(classes, families, shifts, tuple(groups), freqs)


def read_table(data: bytes, bits: int) -> NDArray[np.uint32]:
    """Undo `write_table` for a table on its own; returns [1, token]."""
    freqs = np.zeros((1, ROW), np.uint32)
    end = _read_tables(data, 0, np.array([bits]), freqs)
    if end != len(data):
        raise PayloadError(f"{len(data) - end} bytes follow the frequency table")
    return freqs


def slots_of(freqs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return token << 24 | freq << 12 | slot - start for every slot of dense tables [table, token]."""
    out = np.empty((freqs.shape[0], 1 << DENSE_BITS), np.uint32)
    for row, slots in zip(freqs, out, strict=True):
        fill_slots(row, slots)
    return out.reshape(-1)


def tokens_of(freqs: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Return the token of every slot of sparse tables [table, token]."""
    tokens = np.tile(np.arange(ROW, dtype=np.uint8), freqs.shape[0])
    return np.repeat(tokens, freqs.reshape(-1))


def _read_tables(data: bytes, at: int, bits: NDArray[np.int64], freqs: NDArray[np.uint32]) -> int:
    """Fill freqs[table, token] from data[at], and return where the tables end."""
    raw = np.frombuffer(data, np.uint8)
    for t, row in enumerate(freqs):
        at = int(unpack_table(raw, at, int(bits[t]), row[:TOKENS]))
        if at < 0:
            raise PayloadError(f"frequency table {t} {TABLE_ERRORS[at]}")
    return at


def _read_classes(data: bytes, chunks: int, count: int) -> NDArray[np.uint8]:
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(data, chunks + 1)
    except zlib.error as error:
        raise PayloadError(f"the chunks' classes cannot be inflated: {error}") from None
    if len(raw) != chunks or not inflater.eof or inflater.unused_data:
        raise PayloadError(f"the model names {len(raw)} chunk classes, the vector has {chunks} chunks")
    classes = np.frombuffer(raw, np.uint8)
    if chunks and int(classes.max()) >= count:
        raise PayloadError(f"a chunk is of class {int(classes.max())}, the model has {count}")
    return classes


def encoding_table(freqs: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return what the encoder wants to know of all [table, token], flattened: four numbers each.

    The state from which a word must go first (0 where the token has no slots), ceil(2^31 slots / freq), the slots of
    other tokens, and the first slot.
    """
    wide = freqs.astype(np.int64)
    slots = wide.sum(axis=1, keepdims=True)
    ceilings = (wide << 31) // np.maximum(slots, 1)
    reciprocals = -(-(slots << 31) // np.maximum(wide, 1))
    firsts = np.cumsum(wide, axis=1) - wide
    return np.stack([ceilings, reciprocals, slots - wide, firsts], axis=-1).astype(np.uint64).reshape(-1)
