"""The statistics behind entropy packing: learned from the vector, sent with it, checked on arrival.

Chunks of similar activity (mean |x| / step) form a class. A class fixes how its elements are put on the lattice
(`kernels.lattice`), how many low bits travel raw, and one frequency table for every group of phases. Neighbouring
classes and phases are merged while a table costs more than it saves, so a small vector gets one table and a large
one gets dozens.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs.kernels import lattice
from adagq.codecs.kernels.entropy import count_chunks
from adagq.codecs.kernels.merge import frequencies, merge_neighbours
from adagq.codecs.kernels.rans import DENSE_BITS, SPARSE_BITS
from adagq.codecs.kernels.tokens import ESCAPE, FIRST_WIDE
from adagq.codecs.spans import Chunks
from adagq.core.vectors import FloatVector

LOWEST_ACTIVITY, HIGHEST_ACTIVITY = -34, 34  # in half octaves of mean |x| / step
SPARSE_BELOW: Final = {
    "stochastic": -4,
    "dither": -6,
}  # where few elements leave zero; measured in docs/codecs.md
RARE_BELOW: Final = -10  # where searching for a symbol mispredicts less than a lookup costs
SAMPLE_CHUNKS: Final = 160  # chunks of a class that are counted at most
MAX_TABLES: Final = 48 * lattice.GROUPS  # 16 or 32 kB of decoding table each
FREE_TABLES, ELEMENTS_PER_TABLE = 32, 8192  # beyond the free ones, tables take as much memory as the vector at most
ROW: Final = 256
PHASES_OF: Final = {
    lattice.DITHER: 8,
    lattice.ROUND: 8,
    lattice.SPARSE: lattice.PHASES,
    lattice.RARE: lattice.PHASES,
}


@dataclass(frozen=True)
class Model:
    """Everything a decoder must know besides the scales."""

    classes: NDArray[np.uint8]  # class of each chunk
    families: NDArray[np.int64]  # of each class
    shifts: NDArray[np.int64]
    groups: tuple[tuple[int, ...], ...]  # of each class: how many fine phases share a table
    freqs: NDArray[np.uint32]  # [table, token]

    @cached_property
    def group_counts(self) -> NDArray[np.int64]:
        return np.array([len(lengths) for lengths in self.groups], np.int64)

    @cached_property
    def table_bits(self) -> NDArray[np.int64]:
        """Of each table: its frequencies sum to 2^bits."""
        return np.repeat(slot_bits(self.families), self.group_counts)

    @cached_property
    def firsts(self) -> NDArray[np.uint32]:
        """[table, token]: first slot of each token; behind the last one the number of slots."""
        return (np.cumsum(self.freqs, axis=1) - self.freqs).astype(np.uint32)

    @cached_property
    def wide_shares(self) -> NDArray[np.float64]:
        """Of each class: how many of its tables' slots belong to tokens with raw bits."""
        shares = self.freqs[:, FIRST_WIDE:].sum(axis=1) / self.freqs.sum(axis=1)
        return np.bincount(np.repeat(np.arange(self.families.size), self.group_counts), shares) / self.group_counts

    @cached_property
    def bases(self) -> NDArray[np.uint32]:
        """First entry of the table row of each class's first group."""
        return ((np.cumsum(self.group_counts) - self.group_counts) * ROW).astype(np.uint32)

    @cached_property
    def bases_by_kind(self) -> NDArray[np.uint32]:
        """The same in two lists: dense tables, and those of RARE classes."""
        rare = self.families == lattice.RARE
        dense_before, rare_before = (
            np.cumsum(self.group_counts * kind) - self.group_counts * kind for kind in (~rare, rare)
        )
        bases: NDArray[np.int64] = np.where(rare, rare_before, dense_before) * ROW
        return bases.astype(np.uint32)

    @cached_property
    def absent(self) -> NDArray[np.uint32]:
        """Of each class: the first token that one of its tables has no slots for."""
        first_tables = np.cumsum(self.group_counts) - self.group_counts
        firsts = np.argmin(self.freqs, axis=1)  # each table leaves out some: there are fewer tokens than columns
        return np.minimum.reduceat(firsts, first_tables).astype(np.uint32)

    @cached_property
    def edges(self) -> NDArray[np.int32]:
        """[class, k]: the smallest folded random number of group k + 1."""
        edges = np.full((len(self.groups), lattice.GROUPS), lattice.NEVER, np.int32)
        for c, lengths in enumerate(self.groups):
            fine = lattice.phase_edges(int(self.families[c]))
            edges[c, : len(lengths) - 1] = fine[np.cumsum(lengths)[:-1] - 1]
        return edges

    def raw_starts(self, chunks: Chunks) -> NDArray[np.int64]:
        """Return where each chunk's raw low bits begin, in 32-bit words."""
        words = -(-chunks.sizes * self.shifts[self.classes] // 32)
        return np.concatenate([[0], np.cumsum(words)]).astype(np.int64)


def max_tables(elements: int) -> int:
    """Return how many tables a vector may have; what encoders learn stays well below (20 for 10,000 elements)."""
    return min(MAX_TABLES, FREE_TABLES + elements // ELEMENTS_PER_TABLE)


def slot_bits(families: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(families == lattice.RARE, SPARSE_BITS, DENSE_BITS)


def step_divisors(families: NDArray[np.int64], rounding: str) -> NDArray[np.int64]:
    """At equal slope of the rate-distortion curve a sparse chunk wants about half the step of a dithered one."""
    return np.where((families >= lattice.SPARSE) & (rounding == "dither"), 2, 1)


def learn(
    x: FloatVector,
    chunks: Chunks,
    magnitudes: NDArray[np.float64],
    inverses: NDArray[np.float32],
    levels: int,
    rounding: str,
    key: np.uint32,
    sample: int = SAMPLE_CHUNKS,
    hits: int = 0,
) -> tuple[Model, float]:
    """Return the model of `x` on a lattice of 1 / inverses[chunk], and the bits that its symbols will take."""
    sizes = chunks.sizes
    mean = magnitudes / np.maximum(sizes, 1) * inverses
    with np.errstate(divide="ignore"):
        activity = np.floor(2 * np.log2(mean))
    activity = np.clip(np.nan_to_num(activity, neginf=LOWEST_ACTIVITY), LOWEST_ACTIVITY, HIGHEST_ACTIVITY).astype(int)
    occurs = np.bincount(activity - LOWEST_ACTIVITY) > 0  # not np.unique, which sorts
    present = np.flatnonzero(occurs) + LOWEST_ACTIVITY
    first_classes = (np.cumsum(occurs) - 1)[activity - LOWEST_ACTIVITY]
    families = _families(present, rounding)
    shifts = np.maximum(0, (present - 3) // 2) * (families < lattice.SPARSE)
    divisors = step_divisors(families, rounding)

    picked, weights = _sample(first_classes, sizes, present, sample, hits)
    phases = max(PHASES_OF[int(family)] for family in families)
    counts = np.zeros((present.size, phases, ROW), np.uint32)
    longest = int(sizes.max(initial=1))
    count_chunks(
        x, picked, chunks.starts, first_classes, families, shifts,
        (inverses * divisors[first_classes]).astype(np.float32), (levels * divisors).astype(np.int32),
        key, longest, counts,
    )  # fmt: skip
    used = 1 + int(np.flatnonzero(counts.reshape(-1, ROW).max(axis=0)).max(initial=0))
    weighted = counts[:, :, :used] * weights[:, None, None]

    kinds = families * 64 + shifts
    separator = chunks.count * 0.25 + 24.0
    merged = merge_neighbours(weighted.sum(axis=1), kinds, separator, 4.0, MAX_TABLES // lattice.GROUPS)
    classes = merged[first_classes]
    heads = np.unique(merged, return_index=True)[1]
    sums = np.zeros((heads.size, phases, used))
    for group, histogram in zip(merged, weighted, strict=True):
        sums[group] += histogram
    families, shifts = families[heads], shifts[heads]
    groups = [_phase_groups(sums[c], int(families[c]), int(shifts[c])) for c in range(heads.size)]

    tables = [
        sums[c, end - length : end].sum(axis=0)
        for c, lengths in enumerate(groups)
        for length, end in zip(lengths, accumulate(lengths), strict=True)
    ]
    bits = np.repeat(slot_bits(families), [len(lengths) for lengths in groups])
    freqs = np.zeros((len(tables), ROW), np.uint32)
    symbol_bits = float((sizes * shifts[classes]).sum())
    for t, table in enumerate(tables):
        symbol_bits += frequencies(table, int(bits[t]), ESCAPE, freqs[t])
    return Model(classes.astype(np.uint8), families, shifts, tuple(groups), freqs), symbol_bits


def _families(activity: NDArray[np.int64], rounding: str) -> NDArray[np.int64]:
    dense = lattice.DITHER if rounding == "dither" else lattice.ROUND
    families = np.where(activity < SPARSE_BELOW[rounding], lattice.SPARSE, dense)
    return np.where(activity < RARE_BELOW, lattice.RARE, families).astype(np.int64)


def _sample(
    classes: NDArray[np.int64], sizes: NDArray[np.int64], activity: NDArray[np.int64], most: int, hits: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return evenly spread chunks of every class, and what each counted element of a class stands for.

    `most` chunks of a class, or more where these would hold fewer than `hits` non-zero symbols.
    """
    if np.bincount(classes, minlength=1).max() <= most:  # a short vector is counted whole
        return np.argsort(classes, kind="stable"), np.ones(activity.size)
    picked, weights = [], np.ones(activity.size)
    for c in range(activity.size):
        members = np.flatnonzero(classes == c)
        per_chunk = float(sizes[members].mean()) * min(1.0, 2.0 ** (activity[c] / 2))
        enough = int(min(members.size, max(most, hits / per_chunk)))
        spread = np.linspace(0, members.size - 1, enough).astype(np.int64) if enough < members.size else slice(None)
        chosen = members[spread]
        weights[c] = sizes[members].sum() / sizes[chosen].sum()
        picked.append(chosen)
    return np.concatenate(picked) if picked else np.zeros(0, np.int64), weights


def _phase_groups(counts: NDArray[np.float64], family: int, shift: int) -> tuple[int, ...]:
    phases = PHASES_OF[family]
    if shift:  # many symbols a phase: the phase says nothing any more
        return (phases,)
    merged = merge_neighbours(counts[:phases], np.zeros(phases, np.int64), 8.0, 1.0, lattice.GROUPS)
    return tuple(np.bincount(merged).tolist())
