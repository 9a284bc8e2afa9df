"""`adagq bench server`: one round of many updates through `server.Aggregate`, with nothing else around it.

Payloads are real ones of different updates, made beforehand and cycled. Times are those of one update over those of a
memcpy of an uncompressed update, measured in turns; the fastest of each counts, since other programs only ever make
one slower. Payloads and float vectors come from memory, not from the caches: clients never send the same twice. On
one thread CPU time counts, on several wall time. Memory growth is what the process takes beyond what it took after a
warm-up, `models` the most that a round takes at once, its sum and a payload included, in vectors of the model.
"""

import os
import re
import resource
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from adagq.benchmarks.codecs import layered, marked
from adagq.codecs import QSGD, Codec, Float32
from adagq.core.machine import cores
from adagq.core.messages import Update
from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector, Layout
from adagq.server.aggregate import Aggregate

ELEMENTS = 1_000_000
DIFFERENT = 64  # updates that are cycled: together larger than the caches,
DIFFERENT_ELEMENTS = 2 * 10**8  # and of large models so many that they fit into memory
AHEAD = 400  # updates of the measurement with updates decoded ahead
WARM_UP = 8  # updates before anything is measured
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Load:
    """What a round of many updates took."""

    memcpys: float  # of the float vector, for one update
    updates_per_second: float  # over the whole round
    growth_bytes: int


def codec_rows(like: FloatVector) -> list[tuple[str, Codec, float]]:
    """Name, codec, and the most that one update may take, in memcpys (0: no limit)."""
    two_bits = QSGD(rounding="dither").fitted(like, like.size // 4)
    return [
        ("Float32", Float32(), 0),
        ("QSGD 7, fixed 4 bits", QSGD(7, packing="fixed"), 3),
        ("QSGD 7, fixed 4 bits, buckets of 512", QSGD(7, 512, "max", packing="fixed"), 3),
        (f"QSGD {two_bits.levels}, entropy, dither", two_bits, 12),
        ("QSGD 255, entropy", QSGD(255), 12),
    ]


def different(elements: int) -> int:
    """Return how many updates of so many elements are cycled.

    >>> different(1_000_000), different(100_000_000)
    (64, 2)
    """
    return max(2, min(DIFFERENT, DIFFERENT_ELEMENTS // elements))


def updates_of(codec: Codec, like: FloatVector, count: int | None = None) -> list[Update]:
    """Return encoded updates of different clients: the same layers, other numbers."""
    made = []
    for client in range(different(like.size) if count is None else count):
        vector = like * generator(2, "bench", client).uniform(0.5, 2.0, like.size).astype(np.float32)
        made.append(Update(client, 1, 400 + client, codec.encode(vector, client), b"", 0, 1.0, 0.0))
    return made


def measure(updates: Sequence[Update], elements: int, count: int, threads: int) -> Load:
    """Add up `count` updates in one round."""
    clock = time.process_time if threads == 1 else time.perf_counter
    layout = Layout.of_sizes([elements])
    sources, copy = np.ones((different(elements), elements), np.float32), np.empty(elements, np.float32)
    aggregate = Aggregate(layout, threads)
    for update in updates[:WARM_UP]:  # compiles kernels, starts threads, brings in the pages of the sum
        aggregate.add(update)
        np.copyto(copy, sources[0])
    first = most = resident_bytes()
    fastest_add = fastest_copy = float("inf")
    spent = 0.0
    for number, update in enumerate(islice(cycle(updates), count)):
        begun, start = clock(), time.perf_counter()
        aggregate.add(update)
        added, spent = clock(), spent + time.perf_counter() - start
        np.copyto(copy, sources[number % len(sources)])
        copied = clock()
        fastest_add = min(fastest_add, added - begun)
        fastest_copy = min(fastest_copy, copied - added)
        most = max(most, resident_bytes())
    aggregate.mean()
    return Load(fastest_add / fastest_copy, count / spent, most - first)


def measure_ahead(updates: Sequence[Update], elements: int, count: int, threads: int) -> float:
    """Return the memcpys of one update in a round whose updates are decoded ahead, each by a thread of its own.

    As rounds do it, norms are looked at too. Only a stretch of updates can be timed: the fastest of those counts.
    """
    aggregate = Aggregate(Layout.of_sizes([elements]), threads)
    source, copy = np.ones(elements, np.float32), np.empty(elements, np.float32)
    stretch = 4 * threads
    fastest = fastest_copy = float("inf")
    for _ in range(max(count // stretch, 3)):
        waiting = deque(islice(cycle(updates), stretch))
        begun = time.perf_counter()
        for update in islice(waiting, threads):
            aggregate.decode_ahead(update)
        while waiting:
            aggregate.add_clipped(waiting.popleft())
            if len(waiting) >= threads:
                aggregate.decode_ahead(waiting[threads - 1])
        added = time.perf_counter()
        np.copyto(copy, source)
        fastest = min(fastest, (added - begun) / stretch)
        fastest_copy = min(fastest_copy, time.perf_counter() - added)
    return fastest / fastest_copy


def peak_models(updates: Sequence[Update], elements: int, threads: int) -> float:
    """Return the most memory that a round takes at once, in models: sum, decoded vectors, one payload, all scratch.

    The way of rounds: updates that wait are decoded ahead where the model is not too large for it, norms are looked at.
    NaN where the system does not tell (not Linux).
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    except OSError:
        return float("nan")
    before = resident_bytes()
    aggregate = Aggregate(Layout.of_sizes([elements]), threads)
    for update in updates[:threads]:
        aggregate.decode_ahead(update)
    for update in updates[:threads]:
        aggregate.add_clipped(update)
    aggregate.mean()
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    return (1024 * int(peak[1]) - before + len(updates[0].payload)) / (4 * elements)


def resident_bytes() -> int:
    """Return the memory that this process takes now; without /proc (macOS) the most that it ever took."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * PAGE_BYTES
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(counts: Sequence[int] = (1_000, 10_000), elements: int = ELEMENTS) -> None:
    """Measure and print one table a number of updates: on one thread and on all cores."""
    like = layered(elements)
    for count in counts:
        table = Table(title=f"{count:,} updates of {elements:,} parameters in one round; times / memcpy of the vector")
        headings = (
            "codec",
            "bits",
            "one thread",
            f"{cores()} threads",
            "decoded ahead",
            "updates per second",
            "memory growth",
            "models",
        )
        for heading in headings:
            table.add_column(heading, justify="left" if heading == "codec" else "right")
        for name, codec, limit in codec_rows(like):
            updates = updates_of(codec, like)
            one, all_cores = (measure(updates, elements, count, threads) for threads in (1, cores()))
            table.add_row(
                name,
                f"{8 * len(updates[0].payload) / elements:.2f}",
                f"{one.memcpys:.2f}",
                marked(all_cores.memcpys, limit),
                f"{measure_ahead(updates, elements, min(count, AHEAD), cores()):.2f}",
                f"{all_cores.updates_per_second:,.0f}",
                f"{max(one.growth_bytes, all_cores.growth_bytes) / 1e6:.1f} MB",
                f"{peak_models(updates, elements, cores()):.2f}",
            )
        Console().print(table)
