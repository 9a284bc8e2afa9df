"""`adagq bench update`: what each method would make of one real update of a model.

One client of the settings trains for one epoch; its update is encoded as each method would in its first round.
Seconds are of this machine and one thread, beside a memcpy of the update; bytes are `len(payload)`.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from adagq.codecs import decode, decode_into
from adagq.core.atomic import replacing
from adagq.core.seeds import derive
from adagq.core.vectors import squared_norm
from adagq.experiments.config import Config

REPEATS = 5


def run(config: Config, save: Path | None = None) -> None:
    """Measure, print, and write the numbers to `save` if given."""
    population = config.task.build()
    learner = population.learner(0)
    learner.load(*population.initial(config.seed))
    before, _ = learner.dump()
    learner.train(1, config.training.learning_rate, derive(config.seed, "train", 1, 0))
    after, buffers = learner.dump()
    update = before - after
    copy, out = np.empty_like(update), np.zeros_like(update)
    memcpy = _best(lambda: np.copyto(copy, update))
    rows: list[dict[str, Any]] = []
    for name in config.methods:
        method = config.row(name)
        payload = method.uplink.encode(update, 1, population.layout)
        encode = _best(lambda codec=method.uplink: codec.encode(update, 1, population.layout))  # type: ignore[misc]
        decode_ = _best(lambda payload=payload: decode_into(payload, out, 0.05))  # type: ignore[misc]
        rows.append(
            {
                "method": name,
                "payload_bytes": len(payload),
                "bits_per_parameter": 8 * len(payload) / update.size,
                "nmse": squared_norm(decode(payload) - update) / squared_norm(update),
                "encode_seconds": encode,
                "decode_seconds": decode_,
                "encode_memcpys": encode / memcpy,
                "decode_memcpys": decode_ / memcpy,
            }
        )
    facts = {"model": config.task.model, "data": config.task.data, "parameters": update.size, "buffers": buffers.size}
    Console().print(_table(facts, rows))
    if save is not None:
        with replacing(save) as file:
            file.write((json.dumps(facts | {"methods": rows}, indent=1) + "\n").encode())


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def _table(facts: dict[str, Any], rows: list[dict[str, Any]]) -> Table:
    title = f"One update of {facts['model']} on {facts['data']}: {facts['parameters']:,} parameters"
    table = Table(title=title, box=SIMPLE_HEAD)
    table.add_column("method", no_wrap=True)
    for name in ("bytes", "bits", "NMSE", "encode\nms", "decode\nms", "encode\n/ memcpy", "decode\n/ memcpy"):
        table.add_column(name, justify="right")
    for row in rows:
        speeds = (f"{1e3 * row['encode_seconds']:.2f}", f"{1e3 * row['decode_seconds']:.2f}")
        ratios = (f"{row['encode_memcpys']:.1f}", f"{row['decode_memcpys']:.1f}")
        sizes = (f"{row['payload_bytes']:,}", f"{row['bits_per_parameter']:.2f}", f"{row['nmse']:.2g}")
        table.add_row(row["method"], *sizes, *speeds, *ratios)
    return table
