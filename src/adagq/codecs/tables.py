"""A model as bytes, and frequency tables as the kernels want them. Whatever is read is checked."""

import zlib

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.kernels import lattice
from adagq.codecs.kernels.merge import pack_table
from adagq.codecs.kernels.rans import DENSE_BITS
from adagq.codecs.kernels.tokens import TOKENS
from adagq.codecs.model import MAX_TABLES, PHASES_OF, ROW, Model, slot_bits
from adagq.errors import PayloadError


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
    out = np.empty(3 * TOKENS, np.uint8)
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

    def number(self, what: str, high: int) -> int:
        value, shift = 0, 0
        while True:
            byte = self.byte(what)
            value |= (byte & 127) << shift
            if value > high:
                raise PayloadError(f"the model's {what} is above {high}")
            if byte < 128:
                return value
            shift += 7


def read_model(data: bytes, chunks: int) -> Model:
    """Undo `write_model`; everything is checked, so that decoding with the model cannot fail."""
    reader = _Reader(data)
    count = reader.byte("class count", 1)
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
    if tables > MAX_TABLES:
        raise PayloadError(f"{tables} frequency tables, at most {MAX_TABLES} are allowed")
    bits = np.repeat(slot_bits(families), [len(lengths) for lengths in groups])
    freqs = np.zeros((tables, ROW), np.uint32)
    for t in range(tables):
        _read_table(reader, int(bits[t]), freqs[t])
    rest = data[reader.at :]
    if count == 1:
        classes = np.zeros(chunks, np.uint8)
    else:
        classes = _read_classes(rest, chunks, count)
        rest = b""
    if rest:
        raise PayloadError(f"{len(rest)} bytes follow the model")
    return Model(classes, families, shifts, tuple(groups), freqs)


def read_table(data: bytes, bits: int) -> NDArray[np.uint32]:
    """Undo `write_table` for a table on its own; returns [1, token]."""
    reader, freqs = _Reader(data), np.zeros((1, ROW), np.uint32)
    _read_table(reader, bits, freqs[0])
    if reader.at != len(data):
        raise PayloadError(f"{len(data) - reader.at} bytes follow the frequency table")
    return freqs


def slots_of(freqs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return token << 24 | freq - 1 << 12 | slot - start for every slot of dense tables [table, token]."""
    tokens = np.arange(ROW, dtype=np.uint32)
    slot = np.arange(1 << DENSE_BITS, dtype=np.uint32)
    out = np.empty((freqs.shape[0], slot.size), np.uint32)
    for t, row in enumerate(freqs):
        firsts = (np.cumsum(row) - row).astype(np.uint32)
        token = np.repeat(tokens, row)
        out[t] = (token << 24) | ((row[token] - 1) << 12) | (slot - firsts[token])
    return out.reshape(-1)


def _read_table(reader: _Reader, bits: int, out: NDArray[np.uint32]) -> None:
    token, total = 0, 0
    while token < TOKENS:
        value = reader.number("frequency", 1 << bits)
        if value == 0:
            token += reader.byte("run of unused tokens", 1, TOKENS - token)
            continue
        out[token] = value
        total += value
        token += 1
    if total != 1 << bits or out.max() == 1 << bits:
        raise PayloadError(f"frequencies add up to {total}, not to {1 << bits}, or one takes all of it")


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


def encoding_table(freqs: NDArray[np.uint32]) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Return (freq << 32 | first slot, the next double above 1 / freq) of all [table, token], flattened."""
    wide = freqs.astype(np.uint64)
    table = np.where(wide > 0, (wide << np.uint64(32)) | (np.cumsum(wide, axis=1) - wide), np.uint64(0))
    return table.reshape(-1), np.nextafter(1.0 / np.maximum(freqs, 1), 2.0).reshape(-1)
