"""Run independent pieces of one vector on several threads; the kernels release the GIL.

Pieces write to different places, so results do not depend on how many threads there are. Threads are started with the
first vector that needs them and stay for the next ones: starting them takes longer than adding up a short vector.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import TypeVar

Result = TypeVar("Result")


def run_pieces(work: Callable[[int, int], Result], bounds: Sequence[tuple[int, int]], threads: int) -> list[Result]:
    """Return [work(lo, hi) for lo, hi in bounds], on up to `threads` threads, of which the caller's is one."""
    if threads <= 1 or len(bounds) <= 1:
        return [work(lo, hi) for lo, hi in bounds]
    pieces = iter(enumerate(bounds))  # taken one by one by the threads that are free
    results: dict[int, Result] = {}

    def run() -> None:
        for index, (lo, hi) in pieces:
            results[index] = work(lo, hi)

    others = min(threads, len(bounds)) - 1
    begun = [_threads(others).submit(run) for _ in range(others)]
    try:
        run()
    finally:
        wait(begun)  # no thread writes to the caller's arrays once this has returned
    for other in begun:
        other.result()
    return [results[index] for index in range(len(bounds))]


def even_bounds(count: int, pieces: int) -> list[tuple[int, int]]:
    """Split range(count) into at most `pieces` runs of nearly the same length."""
    pieces = max(1, min(pieces, count))
    cuts = [count * k // pieces for k in range(pieces + 1)]
    return [(lo, hi) for lo, hi in pairwise(cuts) if hi > lo]


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="adagq-codec")


@cache
def background(count: int) -> ThreadPoolExecutor:
    """Return threads for whole vectors; a task of theirs must not use more threads itself."""
    return ThreadPoolExecutor(count, thread_name_prefix="adagq-decode")


for _made in (_threads, background):
    os.register_at_fork(after_in_child=_made.cache_clear)  # a forked child has the executor, but not its threads
