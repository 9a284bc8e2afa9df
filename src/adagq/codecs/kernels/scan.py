"""One pass over the vector: energy, largest and mean magnitude of every chunk."""

from typing import Any

import numpy as np

from adagq.codecs.kernels.common import kernel, leaf

SUM_LANES = 32
ROW = 4 * SUM_LANES
TINY_ENERGY, HUGE_ENERGY = 1e-24, 1e36  # outside, float32 squares may have vanished or overflown
SAFE_LOW, SAFE_HIGH = (
    np.float32(1e-15),
    np.float32(1e15),
)  # squares of anything between fit float32 with room for sums


@leaf
def _scan_row(row: Any, energy: Any, magnitude: Any, largest: Any) -> None:
    for j in range(SUM_LANES):
        a = np.float32(abs(row[j]))
        b = np.float32(abs(row[j + SUM_LANES]))
        c = np.float32(abs(row[j + 2 * SUM_LANES]))
        d = np.float32(abs(row[j + 3 * SUM_LANES]))
        energy[j] = np.float32(energy[j] + np.float32(np.float32(a * a + b * b) + np.float32(c * c + d * d)))
        magnitude[j] = np.float32(magnitude[j] + np.float32(np.float32(a + b) + np.float32(c + d)))
        p = a if a > b else b
        q = c if c > d else d
        p = p if p > q else q
        largest[j] = p if p > largest[j] else largest[j]


@leaf
def _exact_energy(x: Any) -> float:
    total = 0.0
    for j in range(x.size):
        total += np.float64(x[j]) * np.float64(x[j])
    return total


@kernel
def scan(x: Any, starts: Any, lo: int, hi: int, energies: Any, magnitudes: Any, largests: Any) -> None:
    """Fill sum of squares, sum of |x| and max |x| of chunks lo..hi; a NaN or infinity makes the energy not finite."""
    energy = np.empty(SUM_LANES, np.float32)
    magnitude = np.empty(SUM_LANES, np.float32)
    largest = np.empty(SUM_LANES, np.float32)
    for chunk in range(lo, hi):
        piece = x[starts[chunk] : starts[chunk + 1]]
        energy[:] = np.float32(0)
        magnitude[:] = np.float32(0)
        largest[:] = np.float32(0)
        rows = piece.size // ROW
        for r in range(rows):
            _scan_row(piece[r * ROW : r * ROW + ROW], energy, magnitude, largest)
        total = 0.0
        size = 0.0
        peak = np.float32(0)
        for j in range(rows * ROW, piece.size):
            total += np.float64(piece[j]) * np.float64(piece[j])
            size += np.float64(abs(piece[j]))
            peak = max(peak, np.float32(abs(piece[j])))
        for j in range(SUM_LANES):
            total += np.float64(energy[j])
            size += np.float64(magnitude[j])
            peak = max(peak, largest[j])
        if not (SAFE_LOW < peak < SAFE_HIGH):
            total = _exact_energy(piece)
        energies[chunk] = total
        magnitudes[chunk] = size
        largests[chunk] = peak


@leaf
def _energy_row(row: Any, energy: Any) -> None:
    for j in range(SUM_LANES):
        a, b, c, d = row[j], row[j + SUM_LANES], row[j + 2 * SUM_LANES], row[j + 3 * SUM_LANES]
        energy[j] = np.float32(energy[j] + np.float32(np.float32(a * a + b * b) + np.float32(c * c + d * d)))


@kernel
def scan_energy(x: Any, starts: Any, lo: int, hi: int, energies: Any) -> None:
    """Fill the sum of squares of chunks lo..hi, as `scan` does, and nothing else."""
    energy = np.empty(SUM_LANES, np.float32)
    for chunk in range(lo, hi):
        piece = x[starts[chunk] : starts[chunk + 1]]
        energy[:] = np.float32(0)
        rows = piece.size // ROW
        for r in range(rows):
            _energy_row(piece[r * ROW : r * ROW + ROW], energy)
        total = _exact_energy(piece[rows * ROW :])
        for j in range(SUM_LANES):
            total += np.float64(energy[j])
        energies[chunk] = total if TINY_ENERGY < total < HUGE_ENERGY else _exact_energy(piece)


@leaf
def largest_bits(bits: Any) -> Any:
    """Bits of the largest magnitude among float32 numbers given as bits; NaN and infinity are the largest of all."""
    largest = np.uint32(0)
    for j in range(bits.size):
        low = np.uint32(bits[j] & np.uint32(0x7FFFFFFF))
        largest = low if low > largest else largest
    return largest


@leaf
def scan_largest(bits: Any, starts: Any, lo: int, hi: int, largests: Any) -> None:
    """Fill `largest_bits` of spans lo..hi."""
    for span in range(lo, hi):
        largests[span] = largest_bits(bits[starts[span] : starts[span + 1]])


@leaf
def add_scaled(values: Any, weight: Any, out: Any) -> None:
    """out += weight * values."""
    for j in range(out.size):
        out[j] = np.float32(out[j] + np.float32(values[j] * weight))
