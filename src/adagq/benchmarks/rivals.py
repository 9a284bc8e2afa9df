"""Entropy coders of other projects beside ours, on the same integers: constriction and zstandard.

Ours is timed with everything that it does (scan, rounding, statistics, eight tables, adding up); the others are given
the finished levels and one table, and only code and decode them.
"""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from adagq.codecs import QSGD, decode, decode_into
from adagq.core.vectors import FloatVector

LEVELS = (15, 255, 3000)
RIVALS = ("constriction", "zstandard")
Integers = NDArray[np.int32]
Coder = tuple[Callable[[], Any], Callable[[Any], Integers], Callable[[Any], int]]  # encode, decode, bytes


def missing() -> list[str]:
    """Return the packages that are not installed."""
    return [name for name in RIVALS if importlib.util.find_spec(name) is None]


def rivals_table(x: FloatVector, repeats: int) -> Table:
    """Measure on the levels that QSGD sends for `x`: times / memcpy of the vector, and bits an element."""
    table = Table(
        title=f"Entropy coders on the levels of {x.size:,} elements: times / memcpy of the vector, one thread"
    )
    for heading in ("levels", "coder", "encode", "decode", "bits per parameter"):
        table.add_column(heading, justify="left" if heading == "coder" else "right")
    copy = np.empty_like(x)
    memcpy = _seconds(lambda: np.copyto(copy, x), 4 * repeats)
    for levels in LEVELS:
        for name, encode_seconds, decode_seconds, size in _rows(x, levels, repeats):
            cells = (f"{encode_seconds / memcpy:.1f}", f"{decode_seconds / memcpy:.1f}", f"{8 * size / x.size:.4f}")
            table.add_row(str(levels), name, *cells)
        table.add_section()
    return table


def _rows(x: FloatVector, levels: int, repeats: int) -> list[tuple[str, float, float, int]]:
    """Return (coder, seconds to encode, seconds to decode, bytes), ours first."""
    codec, out = QSGD(levels, norm="max"), np.zeros_like(x)
    payload = codec.encode(x, seed=1)
    buffer = bytearray(len(payload))
    encode_seconds = _seconds(lambda: codec.encode_into(x, buffer, seed=1), repeats)
    decode_seconds = _seconds(lambda: decode_into(payload, out, 0.05), repeats)
    sent = np.rint(decode(payload).astype(np.float64) * levels / np.abs(x).max()).astype(np.int32)
    rivals = [_row(name, coder, sent, repeats) for name, coder in _coders(sent).items()]
    return [("ours, with rounding and adding", encode_seconds, decode_seconds, len(payload)), *rivals]


def _row(name: str, coder: Coder, sent: Integers, repeats: int) -> tuple[str, float, float, int]:
    encode, decode_, nbytes = coder
    coded = encode()
    if not np.array_equal(decode_(coded), sent):
        raise AssertionError(f"{name} does not return what it was given")
    return name, _seconds(encode, repeats), _seconds(lambda: decode_(coded), repeats), nbytes(coded)


def _coders(symbols: Integers) -> dict[str, Coder]:
    return {**_constriction(symbols), **_zstandard(symbols)}


def _constriction(symbols: Integers) -> dict[str, Coder]:
    import constriction

    lowest = int(symbols.min())
    places = symbols - np.int32(lowest)
    counts = np.bincount(places) + 1e-3  # a level that does not occur needs a probability too
    model = constriction.stream.model.Categorical((counts / counts.sum()).astype(np.float32), perfect=False)

    def coder(make: Callable[[], Any], push: str, read: Callable[[Any], Any]) -> Coder:
        def encode() -> Any:
            encoder = make()
            getattr(encoder, push)(places, model)
            return encoder.get_compressed()

        def decode_(words: Any) -> Integers:
            found: Integers = read(words).decode(model, places.size) + np.int32(lowest)
            return found

        return encode, decode_, lambda words: int(words.nbytes)

    stack, queue = constriction.stream.stack, constriction.stream.queue
    return {
        "constriction, ANS": coder(stack.AnsCoder, "encode_reverse", stack.AnsCoder),
        "constriction, range coder": coder(queue.RangeEncoder, "encode", queue.RangeDecoder),
    }


def _zstandard(symbols: Integers) -> dict[str, Coder]:
    import zstandard

    narrow = symbols.astype(np.int8 if np.abs(symbols).max() < 128 else np.int16)

    def coder(level: int) -> Coder:
        def unpacked(data: Any) -> Integers:
            raw = zstandard.ZstdDecompressor().decompress(data)
            return np.frombuffer(raw, narrow.dtype).astype(np.int32)

        return lambda: zstandard.ZstdCompressor(level=level).compress(narrow.tobytes()), unpacked, len

    return {f"zstandard, level {level}": coder(level) for level in (1, 3)}


def _seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the CPU seconds of the fastest run."""
    fastest = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        work()
        fastest = min(fastest, time.process_time() - begin)
    return fastest
