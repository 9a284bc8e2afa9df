"""The scenes of `make netbench`, and what the simulator says of each.

Four nodes behind 5, 8, 12 and 20 Mbit/s up and 70 down learn a model of 5.4 MB to the same accuracy:

    fast        an epoch takes 0.3 s: talking is all
    slow        an epoch takes 10 s: computing is most
    changing    as fast, and every link has a new rate every 10 s, log-normal around its own

A device that is slower than this machine is played: the app sleeps what it would need longer.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adagq.experiments.config import Training
from adagq.experiments.runner import simulate
from adagq.simulation.fleet import build
from adagq.simulation.fleet.config import FleetConfig, fleet_config
from adagq.simulation.fleet.links import ConstantLink, PiecewiseLink

APP = Path(__file__).parent / "app"
sys.path.insert(0, str(APP))
from netbench_app.task import Clients, Task  # noqa: E402

FLOWERS_OWN = "flower-fedavg"
ROWS = (FLOWERS_OWN, "fedavg", "fedavg+nesterov", "qsgd", "topk", "adagq", "adagq-fit", "adagq-auto")
UPLINKS_MBPS = (5.0, 8.0, 12.0, 20.0)
DOWNLINK_MBPS = 70.0
HIDDEN = 18000
TARGETS = (0.9, 0.93)  # a short training and a longer one; the second was chosen with seed 0
LEARNING_RATE = 0.03
MOST_ROUNDS = 60
SEGMENT_SHARE = 1448 / 1514  # of an Ethernet frame, which a token bucket counts: TCP's payload
# What an exchange takes beside its bytes and its computing, and what precedes the first round: of the rows `fedavg` and
# flower-fedavg of the scene `fast` with seed 1, which therefore judges no prediction.
EXCHANGE_SECONDS = {False: 1.0, True: 8.2}  # by whether nodes are plain SuperNodes
FIRST_SECONDS = {False: 1.0, True: 0.0}  # adagq's nodes introduce themselves


@dataclass(frozen=True)
class Scene:
    """One fleet; `rate_spread` and `rate_interval_seconds` as in a fleet's settings."""

    name: str
    epoch_seconds: float
    longest_seconds: float  # after which a run that has not reached the second target ends
    rate_spread: float = 0.0
    rate_interval_seconds: float | None = None

    def fleet(self, plain: bool) -> FleetConfig:
        """Return the same fleet for the simulator."""
        given: dict[str, Any] = {
            "client": [{"uplink_mbps": mbps} for mbps in UPLINKS_MBPS],
            "downlink_mbps": DOWNLINK_MBPS,
            "link_scale": SEGMENT_SHARE,
            "epoch_seconds": self.epoch_seconds,
            "exchange_seconds": EXCHANGE_SECONDS[plain],
            "rate_spread": self.rate_spread,
        }
        if self.rate_interval_seconds is not None:
            given["rate_interval_seconds"] = self.rate_interval_seconds
        return fleet_config(given)

    def rates_mbps(self, seed: int, second: float) -> list[tuple[float, float]]:
        """Return what every node's token buckets are set to, up and down, so many seconds after the start."""
        clients = build(self.fleet(False), seed).clients
        return [(_rate(c.uplink, second), _rate(c.downlink, second)) for c in clients]


FAST, SLOW, CHANGING = Scene("fast", 0.3, 180.0), Scene("slow", 10.0, 420.0), Scene("changing", 0.3, 180.0, 0.5, 10.0)
SCENES = {scene.name: scene for scene in (FAST, SLOW, CHANGING)}


def task_of(data: Path, seed: int) -> Task:
    """Return what is learned with this seed."""
    return Task(str(data), len(UPLINKS_MBPS), HIDDEN, seed=seed)


def predict(scene: Scene, row: str, seed: int, data: Path) -> Iterator[dict[str, Any]]:
    """Yield the simulator's rounds, on the clock of the measurement: seconds since `start`."""
    plain = row == FLOWERS_OWN
    training = Training(
        target=TARGETS[-1], max_rounds=MOST_ROUNDS, learning_rate=LEARNING_RATE, decay=1.0, exchanges="auto"
    )
    method = "fedavg" if plain else row
    for line in simulate(Clients(task_of(data, seed)), method, scene.fleet(plain), training, seed):
        seconds = line["seconds"] + FIRST_SECONDS[plain]
        yield {"round": line["round"], "seconds": seconds, "accuracy": line["accuracy"]}
        if seconds > 2 * scene.longest_seconds:
            return


def _rate(link: Any, second: float) -> float:
    if isinstance(link, ConstantLink):
        return link.rate_bps / SEGMENT_SHARE / 1e6
    assert isinstance(link, PiecewiseLink)
    piece = sum(start <= second % link.period for start in link.starts) - 1
    return link.rates_bps[piece] / SEGMENT_SHARE / 1e6
