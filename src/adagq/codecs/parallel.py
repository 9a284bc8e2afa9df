"""Run independent pieces of one vector on several threads; the kernels release the GIL."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

Result = TypeVar("Result")


def run_pieces(work: Callable[[int, int], Result], bounds: Sequence[tuple[int, int]], threads: int) -> list[Result]:
    """Return [work(lo, hi) for lo, hi in bounds], on up to `threads` threads."""
    if threads <= 1 or len(bounds) <= 1:
        return [work(lo, hi) for lo, hi in bounds]
    with ThreadPoolExecutor(min(threads, len(bounds))) as pool:
        return list(pool.map(lambda pair: work(*pair), bounds))


def even_bounds(count: int, pieces: int) -> list[tuple[int, int]]:
    """Split range(count) into at most `pieces` runs of nearly the same length."""
    pieces = max(1, min(pieces, count))
    cuts = [count * k // pieces for k in range(pieces + 1)]
    return [(lo, hi) for lo, hi in pairwise(cuts) if hi > lo]
