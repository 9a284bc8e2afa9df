"""What `adagq plan` is given: the fleet, the model, and what is assumed of the methods."""

import math
from dataclasses import dataclass

from adagq.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class PlanInput:
    """The fleet, the model and what is assumed of the methods."""

    params: float
    uplink_mbps: tuple[float, float] = (5.0, 20.0)
    downlink_mbps: float = 70.0
    clients: int = 20
    compute_seconds: float = 15.5  # one local epoch
    compute_spread: float = 0.1
    server_seconds: float = 0.0
    exchange_seconds: float = 0.0  # a round's one exchange, beside bytes and computing
    # Five local epochs on unlike data bring less than five rounds: measured on digits 0.92 (8.33 rounds of five where
    # one-epoch rounds take 38.3) and on Fashion-MNIST 0.50; in the paper's tables 0.67. The default promises least.
    five_epoch_efficiency: float = 0.92
    adagq_levels: float = 255.0  # its mean levels; its rule moves them, its cost moves little
    fit_slack_seconds: float = 0.5  # adagq-fit: how much longer than the slowest computer a round may take,
    fit_min_bits: float = 0.15  # but never less than what this many bits per parameter take,
    fit_max_bits: float = 4.0  # and nobody sends more than this
    fit_downlink_bits: float = 1.6  # measured on digits: 86.1 MB in 38.3 rounds of 11.17 M parameters
    worthwhile: float = 0.05  # below this share of time saved, compression does not pay

    def __post_init__(self) -> None:
        for key in ("params", "downlink_mbps", "clients", "compute_seconds", "five_epoch_efficiency"):
            _require(getattr(self, key) > 0, key, getattr(self, key), "> 0")
        low, high = self.uplink_mbps
        _require(0 < low <= high, "uplink", f"{low:g},{high:g}", "low,high with 0 < low <= high")
        _require(0 <= self.compute_spread < 1, "compute_spread", self.compute_spread, ">= 0 and < 1")
        for key in ("server_seconds", "exchange_seconds"):
            _require(0 <= getattr(self, key) < math.inf, key, getattr(self, key), ">= 0")


def parse_count(text: str) -> float:
    """Return a number with an optional k, M or G.

    >>> parse_count("11.2M")
    11200000.0
    """
    factor = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}.get(text.strip()[-1:].lower())
    try:
        value = float(text if factor is None else text.strip()[:-1]) * (factor or 1.0)
    except ValueError:
        value = math.nan
    _require(0 < value < math.inf, "params", text, "a number > 0, such as 11.2M")
    return value


def parse_span(text: str, key: str = "uplink") -> tuple[float, float]:
    """Return `low,high`, or one number twice.

    >>> parse_span("5,20"), parse_span("8")
    ((5.0, 20.0), (8.0, 8.0))
    """
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    _require(len(numbers) in (1, 2) and 0 < numbers[0] <= numbers[-1] < math.inf, key, text, "low,high > 0")
    return numbers[0], numbers[-1]


def _require(holds: bool, key: str, value: object, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"{key} = {value!r}: must be {allowed}")
