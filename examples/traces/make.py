"""Make three uplinks that change as LTE's do: generated, not measured. Ten minutes each, a rate a second.

The logarithm of the rate wanders around its mean (an AR(1) process); a handover takes the link almost away.
`python make.py` writes the same files again, and `lte.toml`, a fleet of twenty clients behind them.
"""

from pathlib import Path

import numpy as np

# mean Mbit/s, spread of the log rate, seconds until it has forgotten itself, seconds between handovers
KINDS = {"walking": (8.0, 0.4, 20.0, 300.0), "driving": (6.0, 0.8, 8.0, 60.0), "crowded": (2.0, 0.6, 30.0, 300.0)}
SECONDS = 600
CLIENTS = 20
HERE = Path(__file__).parent


def rates(mean: float, spread: float, memory: float, between: float, rng: np.random.Generator) -> np.ndarray:
    keep = np.exp(-1.0 / memory)
    log_rate = np.empty(SECONDS)
    log_rate[0] = spread * rng.standard_normal()
    for second in range(1, SECONDS):
        log_rate[second] = keep * log_rate[second - 1] + spread * np.sqrt(1 - keep**2) * rng.standard_normal()
    rate = mean * np.exp(log_rate - spread**2 / 2)
    for start in np.flatnonzero(rng.random(SECONDS) < 1 / between):
        rate[start : start + rng.integers(2, 6)] *= 0.05
    return np.maximum(rate, 0.05)


def main() -> None:
    rng = np.random.default_rng(0)
    for name, kind in KINDS.items():
        lines = (f"{second},{rate:.3f}" for second, rate in enumerate(rates(*kind, rng)))
        (HERE / f"{name}.csv").write_text("seconds,mbps\n" + "\n".join(lines) + "\n", "utf-8")
    names = list(KINDS)
    tables = (f'[[client]]\nuplink_trace = "{names[i % len(names)]}.csv"\n' for i in range(CLIENTS))
    head = "# Made by make.py: twenty clients behind generated LTE-like uplinks.\n"
    head += "downlink_mbps = 20.0\nepoch_seconds = [13.95, 17.05]\n\n"
    (HERE / "lte.toml").write_text(head + "\n".join(tables), "utf-8")


if __name__ == "__main__":
    main()
