"""exchanges.jsonl: every message of a run as it was measured, before links are separated from Flower's own time.

One object per round, node and message: `method, seed, round, client, name, download_bytes, upload_bytes,
exchange_seconds` (sent to all there)`, on_its_way_seconds` (sent, to the node's process running; the difference of two
clocks is in it)`, receive_seconds, probe_seconds, train_seconds, encode_seconds` and `process_seconds` (the node's
own)`, upload_seconds` (first chunk seen to last)`, uplink_bps, downlink_bps` (bytes per second, as fitted so far)`,
error`.
"""

from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Final

from adagq.core.atomic import replacing
from adagq.core.jsonl import append_lines, encoded_lines, read_lines

EXCHANGES: Final = "exchanges.jsonl"


def append_exchanges(run_dir: Path | None, row: Mapping[str, Any], exchanges: Iterable[dict[str, Any]]) -> None:
    """Write the messages of the round that `row` closes."""
    if run_dir is None:
        return
    run = {key: row[key] for key in ("method", "seed")}
    append_lines(
        run_dir / EXCHANGES, ({key: _known(value) for key, value in (run | line).items()} for line in exchanges)
    )


def _known(value: Any) -> Any:
    """JSON has no infinity: a rate that is not known yet is null."""
    return None if isinstance(value, float) and not isfinite(value) else value


def cut_exchanges(run_dir: Path | None, last_round: int) -> None:
    """Drop what a killed run wrote after `last_round`."""
    path = None if run_dir is None else run_dir / EXCHANGES
    if path is None or not path.is_file():
        return
    kept = encoded_lines(line for line in read_lines(path) if line["round"] <= last_round)
    with replacing(path) as file:
        file.write(kept)
