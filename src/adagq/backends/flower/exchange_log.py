"""exchanges.jsonl: every message of a run as it was measured, before links are told from Flower's own time.

One object per round, node and message: `method, seed, round, client, name, download_bytes, upload_bytes,
exchange_seconds` (sent to all there)`, on_its_way_seconds` (sent, to the node's process running; the difference of two
clocks is in it)`, receive_seconds, probe_seconds, train_seconds, encode_seconds` and `process_seconds` (the node's
own)`, upload_seconds` (first chunk seen to last)`, uplink_bps, downlink_bps` (bytes per second, as fitted so far)`,
error`.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

EXCHANGES: Final = "exchanges.jsonl"


def append_exchanges(run_dir: Path | None, row: Mapping[str, Any], exchanges: Iterable[Mapping[str, Any]]) -> None:
    """Write the messages of the round that `row` closes."""
    if run_dir is None:
        return
    run = {key: row[key] for key in ("method", "seed")}
    with (run_dir / EXCHANGES).open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(run | dict(line), separators=(",", ":")) + "\n" for line in exchanges)


def cut_exchanges(run_dir: Path | None, last_round: int) -> None:
    """Drop what a killed run wrote after `last_round`."""
    path = None if run_dir is None else run_dir / EXCHANGES
    if path is None or not path.is_file():
        return
    kept = []
    for line in path.read_text("utf-8").splitlines(keepends=True):
        try:
            if json.loads(line)["round"] <= last_round:
                kept.append(line)
        except (ValueError, KeyError):
            continue  # torn by the kill
    path.write_text("".join(kept), "utf-8")
