"""`make netbench`: wall-clock to equal accuracy on real nodes behind real slow links, beside what the simulator says.

    sudo .venv/bin/python benchmarks/netbench/run.py                 # what is missing of all scenes, rows and repeats
    sudo .venv/bin/python benchmarks/netbench/run.py --scenes fast --rows flower-fedavg,adagq-auto --repeats 1
    .venv/bin/python benchmarks/netbench/run.py --table              # of what is there

Every run is a file under results/netbench: a cut leaves a table of what was measured, and the next call goes on. Needs
root (network namespaces) and cleans up after itself.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from namespaces import ADDRESS, Links, links
from scenes import (
    APP,
    FLOWERS_OWN,
    HIDDEN,
    LEARNING_RATE,
    MOST_ROUNDS,
    ROWS,
    SCENES,
    TARGETS,
    UPLINKS_MBPS,
    Scene,
    predict,
)
from table import table

from adagq.core.errors import AdagqError
from adagq.core.jsonl import read_lines
from adagq.flower.local.cluster import Federation

FIRST_SEED = 1  # 0 had a part in choosing the task
LONGEST_SECONDS = 1800.0  # of one run
LOOK_SECONDS = 0.05
Run = tuple[str, int, str]  # scene, seed, row


class Namespaced(Federation):
    """A federation whose processes live in the namespaces."""

    def __init__(self, made: Links, folder: Path, plain: bool) -> None:
        super().__init__(len(UPLINKS_MBPS), folder, host=ADDRESS, plain=plain)
        self._made = made

    def wrap(self, name: str) -> list[str]:
        number = int(name.removeprefix("node-")) if name.startswith("node-") else None
        return ["ip", "netns", "exec", self._made.namespace(number)]


def measure(scene: Scene, row: str, seed: int, folder: Path) -> dict[str, Any]:
    """Run one row to the target and return its figures."""
    out, plain = folder / "out", row == FLOWERS_OWN
    config = {"method": row, "seed": seed, "nodes": len(UPLINKS_MBPS), "hidden": HIDDEN, "lr": LEARNING_RATE}
    config |= {"num-server-rounds": MOST_ROUNDS, "target": TARGETS[-1], "epoch-seconds": scene.epoch_seconds}
    config |= {"longest-seconds": scene.longest_seconds}
    config |= {"data": str(digits(folder / "digits.npz")), "out": str(out)}
    load_before = os.getloadavg()[0]
    with links(scene.rates_mbps(seed, 0.0)) as made, Namespaced(made, folder / "flower", plain) as federation:
        running = federation.run(APP, config)
        over = threading.Event()
        changing = threading.Thread(target=change, args=(made, scene, seed, out, over))
        changing.start()
        try:
            running.wait(LONGEST_SECONDS)
        finally:
            over.set()
            changing.join()
            running.kill()
        if not (out / "rounds.json").is_file():
            raise AdagqError(f"{row} did not finish: {federation.tail('run', 20)}")
    figures = {"scene": scene.name, "row": row, "seed": seed, "targets": TARGETS}
    figures |= {"rounds": json.loads((out / "rounds.json").read_text("utf-8"))}
    figures |= {"load": [load_before, os.getloadavg()[0]], "cores": os.cpu_count()}
    return figures if plain else figures | details(out / "run", figures["rounds"])


def change(made: Links, scene: Scene, seed: int, out: Path, over: threading.Event) -> None:
    """Give the links their new rates, every interval from the second that the run begins."""
    while not (out / "begun").exists():
        if over.wait(LOOK_SECONDS):
            return
    begun = time.monotonic()
    while scene.rate_interval_seconds is not None:
        elapsed = time.monotonic() - begun
        if over.wait(scene.rate_interval_seconds - elapsed % scene.rate_interval_seconds):
            return
        for number, mbps in enumerate(scene.rates_mbps(seed, time.monotonic() - begun + LOOK_SECONDS)):
            made.set(number, mbps)


def details(run_dir: Path, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return bytes, what preceded the first round and what exchanges took, from adagq's own run directory."""
    rows, exchanges = list(read_lines(run_dir / "rows.jsonl")), list(read_lines(run_dir / "exchanges.jsonl"))
    names = ("round", "client", "download_bytes", "upload_bytes", "exchange_seconds", "upload_seconds")
    names += ("receive_seconds", "probe_seconds", "train_seconds", "encode_seconds", "error")
    return {
        "first_seconds": rounds[0]["seconds"] - rows[0]["round_seconds"],
        "upload_bytes": sum(row["upload_bytes"] for row in rows),
        "download_bytes": sum(row["download_bytes"] for row in rows),
        "round_seconds": [row["round_seconds"] for row in rows],
        "server_seconds": [row["server_seconds"] for row in rows],
        "failed": sum(row["failed"] for row in rows),
        "exchanges": [{name: line[name] for name in names} for line in exchanges],
    }


def digits(path: Path) -> Path:
    """Save scikit-learn's digits where processes read them without importing it."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    np.savez(path, images=bunch.images, labels=bunch.target)
    return path


def missing(given: argparse.Namespace, kind: str) -> Iterator[tuple[Path, Run]]:
    """Yield the runs that have no file yet: every row once, then again."""
    seeds = range(FIRST_SEED, FIRST_SEED + given.repeats)
    for seed, scene, row in product(seeds, given.scenes.split(","), given.rows.split(",")):
        path = given.save / scene / f"{kind}-{row}-{seed}.json"
        if not path.is_file():
            yield path, (scene, seed, row)


def write(path: Path, figures: dict[str, Any]) -> None:
    """Write one run's file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(figures) + "\n", "utf-8")
    draft.replace(path)
    last = figures["rounds"][-1]
    name = path.relative_to(path.parent.parent)
    print(f"{name}: {last['accuracy']:.3f} after {last['round']} rounds, {last['seconds']:.1f} s", flush=True)


def run(path: Path, asked: Run) -> bool:
    """Measure or predict one run into its file; a run that fails is named, and the others go on."""
    name, seed, row = asked
    with tempfile.TemporaryDirectory(prefix="adagq-netbench-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        try:
            if path.name.startswith("measured"):
                write(path, measure(SCENES[name], row, seed, folder))
            else:
                write(path, {"rounds": list(predict(SCENES[name], row, seed, digits(folder / "digits.npz")))})
        except (AdagqError, subprocess.SubprocessError) as error:
            print(f"{path}: {error}", flush=True)
            return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", default=",".join(SCENES))
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=int, default=10**6, help="stop after so many runs")
    parser.add_argument("--measure", action="store_true", help="only the real nodes")
    parser.add_argument("--predict", action="store_true", help="only what the simulator says of them")
    parser.add_argument("--table", action="store_true", help="only print the table of what is there")
    parser.add_argument("--save", type=Path, default=Path("results/netbench"))
    given = parser.parse_args()
    if not (given.predict or given.table) and os.geteuid() != 0:
        parser.error("network namespaces need root")
    kinds = [] if given.table else ["measured"] * (not given.predict) + ["predicted"] * (not given.measure)
    failed = [path for kind in kinds for path, one in list(missing(given, kind))[: given.limit] if not run(path, one)]
    print(table(given.save))
    if failed:
        sys.exit(f"failed, and tried again by the next call: {', '.join(path.stem for path in failed)}")


if __name__ == "__main__":
    main()
