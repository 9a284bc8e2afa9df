"""Event files for TensorBoard: one run per method and seed, one scalar per column of rows.jsonl.

Steps are rounds, and the events' clock is the virtual one: TensorBoard's "relative" axis shows virtual time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from adagq.core.atomic import replacing
from adagq.core.errors import ConfigError
from adagq.report.run import Row, load, number
from adagq.report.summary import by_seed

UNPLOTTED = {"method", "seed", "round"}
EVENTS = "events.out.tfevents.0.adagq"  # TensorBoard knows event files by their name


def write_tensorboard(run_dir: Path | str) -> Path:
    """Write `run_dir`/tensorboard/METHOD/seed-N/events…; the folder for `tensorboard --logdir`.

    Rebuilding replaces the files, and the same rows give the same files.
    """
    tools = require_tensorboard()
    run = load(run_dir)
    folder = run.directory / "tensorboard"
    for method, seeds in by_seed(run.rows).items():
        for seed, rows in seeds.items():
            with replacing(folder / method / f"seed-{seed}" / EVENTS) as file:
                _write_events(file, rows, *tools)
    return folder


def _write_events(file: BinaryIO, rows: Sequence[Row], event_of: Any, scalar_of: Any, recorder_of: Any) -> None:
    recorder = recorder_of(file)
    recorder.write(event_of(file_version="brain.Event:2").SerializeToString())
    for row in rows:
        clock, round = float(row["seconds"]), int(row["round"])
        for key in sorted(row.keys() - UNPLOTTED):
            value = number(row[key]) if isinstance(row[key], int | float) else None
            if value is not None:
                event = event_of(wall_time=clock, step=round, summary=scalar_of(_tag(key), value))
                recorder.write(event.SerializeToString())


def _tag(key: str) -> str:
    """Columns of one kind share a section of the dashboard."""
    kind = "seconds" if key.endswith("seconds") else "bytes" if key.endswith("bytes") else "training"
    return f"{kind}/{key}"


def require_tensorboard() -> tuple[Any, Any, Any]:
    """Return TensorBoard's event, scalar and record; its own writer loses errors of the disk in a thread."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.plugins.scalar.summary import scalar_pb
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError:
        raise ConfigError("event files need TensorBoard: pip install 'adagq[tensorboard]'") from None
    return Event, scalar_pb, RecordWriter
