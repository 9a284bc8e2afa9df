"""Rows and ledgers that look like a run's, made up from a seed to test the report; they measure nothing."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

# method: local epochs, bytes up, bytes down, levels, accuracy in the end
SHAPES: dict[str, tuple[int, float, float, float, float]] = {
    "fedavg": (5, 44.7e6, 44.7e6, 0.0, 0.90),
    "fedavg-fp16": (5, 22.3e6, 22.3e6, 0.0, 0.90),
    "qsgd": (1, 12.6e6, 44.7e6, 255.0, 0.90),
    "topk": (1, 8.9e6, 44.7e6, 0.0, 0.89),
    "fedpaq": (5, 12.6e6, 44.7e6, 255.0, 0.90),
    "adagq": (1, 9.0e6, 44.7e6, 200.0, 0.90),
    "adagq-fit": (1, 2.4e6, 2.6e6, 60.0, 0.90),
    "ideal": (1, 44.7e6, 44.7e6, 0.0, 0.90),
}


def rows_and_ledger(
    methods: Sequence[str] = tuple(SHAPES),
    seeds: int = 3,
    rounds: int = 60,
    clients: int = 20,
    slow_learner: str | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A made-up run on a fleet like the paper's; `slow_learner` never gets beyond 70 % accuracy."""
    rows: list[dict[str, Any]] = []
    ledger: list[dict[str, Any]] = []
    for method in methods:
        epochs, up, down, levels, ceiling = SHAPES[method]
        for seed in range(seeds):
            random = np.random.default_rng([seed, len(method)])
            fleet = np.random.default_rng(seed)
            uplink = fleet.uniform(5e6, 20e6, clients)
            epoch_seconds = fleet.uniform(14.0, 17.0, clients)
            now = 0.0
            for number in range(1, rounds + 1):
                compute = epochs * epoch_seconds * random.normal(1.0, 0.02, clients)
                own = np.full(clients, up)
                used = np.full(clients, levels)
                if method.startswith("adagq"):
                    share = uplink / uplink.mean() * (1.0 + 0.3 * np.sin(number / 9))
                    own = up * share * random.normal(1.0, 0.03, clients)
                    used = np.maximum(1, np.round(levels * share**2 * (0.5 + number / rounds)))
                free = method == "ideal"
                uploads = np.zeros(clients) if free else 8 * own / uplink
                downloads = np.full(clients, 0.0 if free else 8 * down / 70e6)
                busy = compute + uploads + downloads
                waiting = busy.max() - busy
                server = 0.2
                now += float(busy.max()) + server
                learnt = 1 - np.exp(-number * (1 + 0.55 * (epochs - 1)) / 14)
                top = 0.70 if method == slow_learner else ceiling
                accuracy = 0.1 + (top - 0.1) * learnt + random.normal(0, 0.006)
                rows.append(
                    {
                        "method": method,
                        "seed": seed,
                        "round": number,
                        "seconds": now,
                        "round_seconds": float(busy.max()) + server,
                        "accuracy": float(np.clip(accuracy, 0, 1)),
                        "loss": float(2.3 * np.exp(-number / 25)),
                        "clients": clients,
                        "upload_bytes": int(own.astype(int).sum()),
                        "download_bytes": int(down) * clients,
                        "compute_seconds": float(compute.mean()),
                        "upload_seconds": float(uploads.mean()),
                        "download_seconds": float(downloads.mean()),
                        "waiting_seconds": float(waiting.mean()),
                        "server_seconds": server,
                        "levels": float(used.mean()),
                        "norm": float(3 * np.exp(-number / 40)),
                        "nsr": 0.02,
                    }
                )
                ledger += [
                    {
                        "method": method,
                        "seed": seed,
                        "round": number,
                        "client": client,
                        "levels": int(used[client]),
                        "upload_bytes": int(own[client]),
                        "download_bytes": int(down),
                        "download_seconds": float(downloads[client]),
                        "compute_seconds": float(compute[client]),
                        "upload_seconds": float(uploads[client]),
                        "waiting_seconds": float(waiting[client]),
                    }
                    for client in range(clients)
                ]
    return rows, ledger


CONFIG = """\
seed = 0
seeds = 3
payload_scale = {payload_scale}

[training]
target = {target}

[task]
data = "digits"
model = "mlp"
partition = "sigma_d"
partition_value = 0.5

[fleet]
uplink_mbps = [5.0, 20.0]
downlink_mbps = 70.0
epoch_seconds = [14.0, 17.0]
"""


def write_run(
    directory: Path,
    rows: Sequence[dict[str, Any]],
    ledger: Sequence[dict[str, Any]],
    target: float = 0.85,
    payload_scale: float = 1.0,
) -> Path:
    """A run directory as an experiment leaves it, before the report is written."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.toml").write_text(CONFIG.format(target=target, payload_scale=payload_scale))
    for name, lines in (("rows", rows), ("ledger", ledger)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (directory / f"{name}.jsonl").write_text(text)
    return directory
