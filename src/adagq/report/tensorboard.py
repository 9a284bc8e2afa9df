"""Event files for TensorBoard: one run per method and seed, one scalar per column of rows.jsonl.

Steps are rounds, and the events' clock is the virtual one: TensorBoard's "relative" axis shows virtual time.
"""

import shutil
from pathlib import Path
from typing import Any

from adagq.errors import ConfigError
from adagq.report.run import load, number
from adagq.report.summary import by_seed

UNPLOTTED = {"method", "seed", "round"}


def write_tensorboard(run_dir: Path | str) -> Path:
    """Write `run_dir`/tensorboard/METHOD/seed-N/events…; the folder for `tensorboard --logdir`."""
    writer_of = _writer_class()
    run = load(run_dir)
    folder = run.directory / "tensorboard"
    for method, seeds in by_seed(run.rows).items():
        for seed, rows in seeds.items():
            place = folder / method / f"seed-{seed}"
            shutil.rmtree(place, ignore_errors=True)  # events are only ever appended; a rebuild starts over
            place.mkdir(parents=True)
            writer = writer_of(str(place))
            for row in rows:
                for key in sorted(row.keys() - UNPLOTTED):
                    value = number(row[key]) if isinstance(row[key], int | float) else None
                    if value is not None:
                        clock = float(row["seconds"])
                        writer.add_scalar(_tag(key), value, int(row["round"]), wall_time=clock)
            writer.close()
    return folder


def _tag(key: str) -> str:
    """Columns of one kind share a section of the dashboard."""
    kind = "seconds" if key.endswith("seconds") else "bytes" if key.endswith("bytes") else "training"
    return f"{kind}/{key}"


def _writer_class() -> Any:
    try:
        from tensorboard.summary import Writer
    except ImportError:
        raise ConfigError("event files need TensorBoard: pip install 'adagq[tensorboard]'") from None
    return Writer
