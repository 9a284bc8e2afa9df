"""The pass over the vector that every `encode` begins with: is it finite, and how large are its numbers?"""

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.kernels.scan import largest_bits, scan, scan_energy, scan_largest
from adagq.codecs.parallel import even_bounds, run_pieces
from adagq.codecs.spans import Chunks
from adagq.core.errors import NonFiniteError
from adagq.core.vectors import FloatVector


def vector_of(vector: NDArray[Any]) -> FloatVector:
    """Return `vector` as a contiguous one-dimensional float32 array (itself, if it is one)."""
    array = np.asarray(vector)
    if array.ndim != 1:
        raise ValueError(f"a codec takes a one-dimensional vector, got shape {array.shape}; flatten it by a Layout")
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"a codec takes floating-point numbers, got {array.dtype}")
    with np.errstate(over="ignore"):  # a float64 beyond float32's range becomes infinite and is refused as such
        return np.require(array, np.float32, ["C", "A"])


@dataclass(frozen=True, slots=True)
class Scan:
    """Sizes of the numbers: per chunk, and summed up per span."""

    chunks: Chunks
    magnitudes: NDArray[np.float64]  # sum of |x|, per chunk
    norms: NDArray[np.float64]  # per span
    largests: NDArray[np.float64]  # per span


def scan_vector(x: FloatVector, starts: NDArray[np.int64], threads: int = 1) -> Scan:
    """Scan `x`, whose spans begin at `starts`; raise `NonFiniteError` if a number is NaN or infinite."""
    chunks = Chunks.of(starts)
    energies, magnitudes = np.zeros(chunks.count), np.zeros(chunks.count)
    largests = np.zeros(chunks.count, np.float32)
    run_pieces(
        lambda lo, hi: scan(x, chunks.starts, lo, hi, energies, magnitudes, largests),
        even_bounds(chunks.count, threads),
        threads,
    )
    if not np.isfinite(energies.sum()):
        refuse(x)
    if not chunks.count:
        return Scan(chunks, magnitudes, np.zeros(0), np.zeros(0))
    firsts = np.flatnonzero(np.diff(chunks.spans, prepend=-1))
    norms = np.sqrt(np.add.reduceat(energies, firsts))
    return Scan(chunks, magnitudes, norms, np.maximum.reduceat(largests, firsts).astype(np.float64))


def scan_norms(x: FloatVector, starts: NDArray[np.int64], norm: str, threads: int = 1) -> NDArray[np.float64]:
    """Return the norm of every span and nothing else; raise `NonFiniteError` if a number is NaN or infinite."""
    if norm == "max":
        largests = np.zeros(starts.size - 1, np.uint32)
        bits = x.view(np.uint32)
        run_pieces(
            lambda lo, hi: scan_largest(bits, starts, lo, hi, largests), even_bounds(starts.size - 1, threads), threads
        )
        if not np.isfinite(largests.view(np.float32)).all():
            refuse(x)
        return largests.view(np.float32).astype(np.float64)
    chunks = Chunks.of(starts)
    energies = np.zeros(chunks.count)
    run_pieces(
        lambda lo, hi: scan_energy(x, chunks.starts, lo, hi, energies), even_bounds(chunks.count, threads), threads
    )
    if not np.isfinite(energies.sum()):
        refuse(x)
    return np.sqrt(np.bincount(chunks.spans, energies, starts.size - 1))


def largest_magnitude(x: FloatVector) -> float:
    """Return max |x|: infinite or NaN if a number is not finite, 0 if there is none."""
    return float(np.uint32(largest_bits(x.view(np.uint32))).view(np.float32))


def finite_vector(vector: NDArray[Any]) -> FloatVector:
    """Return `vector_of(vector)`, checked to be finite."""
    x = vector_of(vector)
    if not np.isfinite(largest_magnitude(x)):
        refuse(x)
    return x


def refuse(x: FloatVector) -> NoReturn:
    bad = np.flatnonzero(~np.isfinite(x))
    raise NonFiniteError(f"{bad.size} of {x.size} numbers are not finite, the first at index {bad[0]}")
