"""What an exchange costs on Flower beside its bytes and its computing: `adagq node`, plain SuperNodes, Flower's FedAvg.

All on this machine's loopback interface, whose rate is taken as unlimited: what remains of an exchange after the node's
own steps is the fixed cost, the copies of a large model included. Nodes compute nothing to speak of, so of Flower's own
FedAvg a whole round is the fixed cost.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from adagq.core.errors import AdagqError

SIZES: Final = {"1 kB": 256, "44 MB": 11_000_000}  # numbers of four bytes
LONGEST_SECONDS: Final = 600.0  # of one run
WAYS: Final = (("adagq node", "fedavg", False), ("flower-supernode", "fedavg", True), ("Flower's FedAvg", "", True))


def run(nodes: int, rounds: int, save: Path | None = None) -> None:
    """Print a table: seconds of a round, of an exchange, of computing, and the fixed cost."""
    print(f"{nodes} nodes, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; medians of rounds 2 to {rounds}, s")
    print(f"{'model':>7}  {'':18}{'round':>8}{'exchange':>10}{'compute':>9}{'fixed':>8}")
    figures = []
    for line in measure(nodes, rounds):
        figures.append(line)
        parts = [line["round_seconds"], line["exchange_seconds"], line["compute_seconds"], line["fixed_seconds"]]
        shown = [f"{part:.2f}" if part is not None else "-" for part in parts]
        print(f"{line['model']:>7}  {line['way']:18}{shown[0]:>8}{shown[1]:>10}{shown[2]:>9}{shown[3]:>8}", flush=True)
    if save is not None:
        save.write_text(json.dumps({"nodes": nodes, "rounds": rounds, "lines": figures}, indent=2) + "\n", "utf-8")


def measure(nodes: int, rounds: int, sizes: Mapping[str, int] = SIZES) -> Iterator[dict[str, Any]]:
    """Yield the figures of each way and size; one federation for each way of starting nodes."""
    from adagq.flower.local.cluster import Federation
    from adagq.flower.local.exchange_app import FIGURES, PLAIN, write_exchange_app

    for plain in (False, True):
        with tempfile.TemporaryDirectory(prefix="adagq-bench-") as name:
            folder = Path(name)
            app = write_exchange_app(folder / "app")
            with Federation(nodes, folder / "flower", plain=plain) as federation:
                for way, method, is_plain in WAYS:
                    for model, elements in sizes.items() if is_plain == plain else ():
                        out = folder / f"{method or 'flower'}-{elements}"
                        settings = {"method": method or PLAIN, "elements": elements, "nodes": nodes, "out": str(out)}
                        running = federation.run(app, settings | {"num-server-rounds": rounds})
                        running.wait(LONGEST_SECONDS)
                        if not (out / FIGURES).is_file():
                            raise AdagqError(f"{way}, {model}: the run failed: {federation.tail('run')}")
                        figures = json.loads((out / FIGURES).read_text("utf-8"))
                        yield {"model": model, "way": way, **figures, "fixed_seconds": _fixed_seconds(figures)}


def _fixed_seconds(figures: dict[str, Any]) -> float:
    if figures["exchange_seconds"] is None:
        return float(figures["round_seconds"])
    return float(figures["exchange_seconds"] - figures["compute_seconds"])
