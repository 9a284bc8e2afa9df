"""`make netbench`: real wall-clock over real slow links, and how well bytes / rate predicts an upload.

    sudo .venv/bin/python benchmarks/netbench/run.py --rounds 6 --save results/netbench

One SuperLink and four SuperNodes on this machine, each node behind its own token bucket (namespaces.py), train a model
of 10.8 MB with every method for the same number of rounds. Needs root; takes minutes; cleans up after itself.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from namespaces import ADDRESS, LINK, namespaces, node_namespace

from adagq.core.errors import AdagqError
from adagq.flower.link_rates import Link
from adagq.flower.local.cluster import HOST, Federation

APP = Path(__file__).parent / "app"
UPLINKS_MBPS = (5.0, 8.0, 12.0, 20.0)
DOWNLINK_MBPS = 70.0
METHODS = ("fedavg", "qsgd", "adagq", "adagq-fit")
FLOWERS_OWN = "flower-fedavg"
LONGEST_SECONDS = 1800.0  # of one method


class Namespaced(Federation):
    """A federation whose processes live in the namespaces."""

    def wrap(self, name: str) -> list[str]:
        place = node_namespace(int(name.removeprefix("node-"))) if name.startswith("node-") else LINK
        return ["ip", "netns", "exec", place]


def measure(federation: Federation, method: str, rounds: int, out: Path, data: Path, exchanges: int) -> dict[str, Any]:
    """Run one method and return its figures."""
    config = {"method": method, "num-server-rounds": rounds, "nodes": federation.nodes, "exchanges": exchanges}
    begun = time.perf_counter()
    running = federation.run(APP, {**config, "data": str(data), "out": str(out)})
    try:
        running.wait(LONGEST_SECONDS)
    finally:
        running.kill()
    if not (out / "rounds.json").is_file():
        raise AdagqError(f"{method} did not finish: {federation.tail('run')}")
    figures = json.loads((out / "rounds.json").read_text("utf-8"))
    figures["command_seconds"] = time.perf_counter() - begun
    if method != FLOWERS_OWN:
        figures |= summarised(list(lines(out / "rows.jsonl")), list(lines(out / "exchanges.jsonl")))
    return figures


def summarised(rows: list[dict[str, Any]], exchanges: list[dict[str, Any]]) -> dict[str, Any]:
    """Return wall-clock, bytes, and for every node what its uploads took and should have taken."""
    return {
        "seconds": rows[-1]["seconds"],
        "round_seconds": [row["round_seconds"] for row in rows],
        "accuracy": [row["accuracy"] for row in rows],
        "upload_bytes": sum(row["upload_bytes"] for row in rows),
        "download_bytes": sum(row["download_bytes"] for row in rows),
        "levels": [row["levels"] for row in rows],
        "nodes": {str(client): _node(client, exchanges) for client in range(len(UPLINKS_MBPS))},
    }


def _node(client: int, exchanges: list[dict[str, Any]]) -> dict[str, Any]:
    mine = [line for line in exchanges if line["client"] == client and line["upload_bytes"] > 0]
    rate = UPLINKS_MBPS[client] * 125_000
    busy = [sum(line[f"{step}_seconds"] for step in ("receive", "probe", "train", "encode")) for line in mine]
    down = [line["download_bytes"] / (DOWNLINK_MBPS * 125_000) for line in mine]
    up = [line["upload_bytes"] / rate for line in mine]
    own = [line["exchange_seconds"] - a - b - c for line, a, b, c in zip(mine, busy, down, up, strict=True)]
    return {
        "uplink_mbps": UPLINKS_MBPS[client],
        "fitted_uplink_mbps": (mine[-1]["uplink_bps"] or float("nan")) / 125_000,
        "upload_bytes": [line["upload_bytes"] for line in mine],
        "measured_upload_seconds": [line["upload_seconds"] for line in mine],
        "predicted_upload_seconds": up,
        "compute_seconds": statistics.median(busy),
        "encode_seconds": statistics.median(line["encode_seconds"] for line in mine),
        "flower_seconds_per_exchange": statistics.median(own),
    }


def predicted(save: Path) -> dict[str, Any]:
    """Return, for every node, the line through all of its uploads of all methods beside what bytes / rate says.

    The line's slope is the link, its constant what Flower takes for a message of any size.
    """
    files = [json.loads((save / f"{method}.json").read_text("utf-8")) for method in METHODS]
    nodes = {}
    for client, mbps in enumerate(UPLINKS_MBPS):
        link = Link()
        for figures in files:
            node = figures["nodes"][str(client)]
            for nbytes, seconds in zip(node["upload_bytes"], node["measured_upload_seconds"], strict=True):
                link.saw(nbytes, seconds)
        fitted_mbps = (link.rate_bps or float("nan")) / 125_000
        nodes[str(client)] = {
            "uplink_mbps": mbps,
            "fitted_mbps": fitted_mbps,
            "prediction_error": fitted_mbps / mbps - 1,  # of bytes / rate against the measured seconds of the bytes
            "constant_seconds": link.overhead_seconds,
            "uploads": len(link.transfers),
        }
    return nodes


def lines(path: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in path.read_text("utf-8").splitlines())


def digits(path: Path) -> Path:
    """Save scikit-learn's digits where processes read them without importing it."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    np.savez(path, images=bunch.images, labels=bunch.target)
    return path


def save(figures: dict[str, Any], given: argparse.Namespace, method: str) -> None:
    """Write and print the figures of one method."""
    figures |= {"exchanges": given.exchanges, "load_after": os.getloadavg()[0], "cores": os.cpu_count()}
    figures |= {"machine": platform.machine(), "links": "loopback" if given.loopback else "tbf"}
    name = f"{'loopback-' if given.loopback else ''}{method}.json"
    (given.save / name).write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    median, total = statistics.median(figures["round_seconds"]), sum(figures["round_seconds"])
    print(f"{method}: median round {median:.1f} s, all {total:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--exchanges", type=int, default=1, choices=(1, 2))
    parser.add_argument("--loopback", action="store_true", help="without slow links: Flower's floor and ours above it")
    parser.add_argument("--save", type=Path, default=Path("results/netbench"))
    given = parser.parse_args()
    if not given.loopback and os.geteuid() != 0:
        parser.error("network namespaces need root")
    given.save.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="adagq-netbench-"))
    nodes = len(UPLINKS_MBPS)
    try:
        data = digits(folder / "digits.npz")
        with nullcontext() if given.loopback else namespaces(UPLINKS_MBPS, DOWNLINK_MBPS):
            kind = Federation if given.loopback else Namespaced
            host = HOST if given.loopback else ADDRESS
            for plain in (False, True):  # Flower's own FedAvg has Flower's own nodes
                methods = [method for method in given.methods.split(",") if (method == FLOWERS_OWN) == plain]
                if not methods:
                    continue
                with kind(nodes, folder / f"flower-{plain}", host=host, plain=plain) as federation:
                    for method in methods:
                        figures = measure(federation, method, given.rounds, folder / method, data, given.exchanges)
                        save(figures, given, method)
        if all((given.save / f"{method}.json").is_file() for method in METHODS):
            text = json.dumps(predicted(given.save), indent=2) + "\n"
            (given.save / "links.json").write_text(text, "utf-8")
            print(text)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
