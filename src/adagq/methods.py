"""METHODS: one row per method. A baseline is a row here, not a module.

Rows of the paper's evaluation, float16 as the honest uncompressed baseline, ours, and
`ideal`: uncompressed one-epoch rounds over free links, the reference of the communication tax.
"""

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

from adagq.codecs import QSGD, Codec, Float16, Float32, TopK
from adagq.control import AdaGQ, Controller, Fit, Fixed, NormOnly
from adagq.errors import ConfigError

FIXED: Final = Fixed()
FLOAT32: Final = Float32()


@dataclass(frozen=True)
class Method:
    """What a method sends, who decides how much, and how long clients train in between."""

    name: str
    label: str
    description: str
    uplink: Codec
    controller: Controller[Any] = FIXED
    epochs: int = 1  # local epochs per round
    downlink: Codec = FLOAT32
    residual: bool = False  # error feedback at the clients
    rate_curve: bool = False  # clients report the codec's rate curve of their update, for the controller
    free_links: bool = False


# Per-tensor max norms serve the published methods best at fixed packing (docs/simulation.md).
PACKED: Final = QSGD(levels=255, granularity="tensor", norm="max", packing="fixed")
# Few levels to begin with: nothing is known of the links in the first round, less than a bit a parameter suits most.
CODED: Final = QSGD(levels=15, granularity="tensor", norm="l2", rounding="dither", packing="entropy")

ROWS: Final = (
    Method("fedavg", "FedAvg", "float32 updates, five local epochs", FLOAT32, epochs=5),
    Method(
        "fedavg-fp16", "FedAvg, float16", "float16 both ways, five local epochs", Float16(),
        epochs=5, downlink=Float16(),
    ),
    Method("qsgd", "QSGD", "8-bit levels", PACKED),
    Method("topk", "Top-k", "the largest tenth of the entries, error feedback", TopK(fraction=0.1), residual=True),
    Method("fedpaq", "FedPAQ", "8-bit levels, five local epochs", PACKED, epochs=5),
    Method("adagq", "AdaGQ", "the paper's algorithm", PACKED, AdaGQ(), rate_curve=True),
    Method(
        "adagq-fit", "AdaGQ-fit", "fills every client's spare time with real bits", CODED, Fit(),
        downlink=replace(CODED, levels=31),
    ),
    Method("ideal", "ideal", "uncompressed, free links: the reference of the tax", FLOAT32, free_links=True),
    Method(
        "topk-plain", "Top-k, 64 bits", "Top-k as the paper counts it: 64 bits an entry",
        TopK(fraction=0.1, indices="plain"), residual=True,
    ),
    # The parts of AdaGQ on their own, for ablations.
    Method(
        "adagq-adaptive", "AdaGQ, adaptive only", "the same levels for all clients", PACKED,
        AdaGQ(heterogeneous=False), rate_curve=True,
    ),
    Method(
        "adagq-heterogeneous", "AdaGQ, heterogeneous only", "a fixed average of the levels", PACKED,
        AdaGQ(adaptive=False), rate_curve=True,
    ),
    Method("norm-only", "norm rule", "levels follow the aggregate's norm (figure 2b)", PACKED, NormOnly()),
)  # fmt: skip
COMPARED: Final = tuple(row.name for row in ROWS[:8])
RESIDUAL: Final = "+residual"
METHODS: Final = {row.name: row for row in ROWS}


def method_of(name: str) -> Method:
    """Return the row called `name`; `qsgd+residual` is `qsgd` with error feedback at the clients.

    >>> method_of("fedpaq+residual").residual
    True
    """
    if name.endswith(RESIDUAL):
        return replace(method_of(name.removesuffix(RESIDUAL)), name=name, residual=True)
    try:
        return METHODS[name]
    except KeyError:
        near = get_close_matches(name, METHODS, 1, 0.0)
        raise ConfigError(f"unknown method {name!r}: did you mean {near[0]!r}? Known: {', '.join(METHODS)}") from None
