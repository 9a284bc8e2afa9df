"""exchanges.jsonl: every message of a run as it was measured, before links are separated from Flower's own time.

One object per round, node and message: `method, seed, round, client, name, download_bytes, upload_bytes,
exchange_seconds` (sent to all there)`, on_its_way_seconds` (sent, to the node's process running; the difference of two
clocks is in it)`, receive_seconds, probe_seconds, train_seconds, encode_seconds` and `process_seconds` (the node's
own)`, upload_seconds` (first chunk seen to last)`, uplink_bps, downlink_bps` (bytes per second, as fitted so far)`,
error`.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any

from adagq.experiments.row_files import EXCHANGES

__all__ = ["EXCHANGES", "exchange_lines"]


def exchange_lines(row: Mapping[str, Any], exchanges: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the lines of the round that `row` closes."""
    run = {key: row[key] for key in ("method", "seed")}
    return ({key: _known(value) for key, value in (run | line).items()} for line in exchanges)


def _known(value: Any) -> Any:
    """JSON has no infinity: a rate that is not known yet is null."""
    return None if isinstance(value, float) and not isfinite(value) else value
