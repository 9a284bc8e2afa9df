"""METHODS: one row per method. A baseline is a row here, not a module.

Rows of the paper's evaluation, float16 as the honest uncompressed baseline, ours, and
`ideal`: uncompressed one-epoch rounds over free links, the reference of the communication tax.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from adagq.client.optimizers import CLIENT_OPTIMIZERS, SGD, ClientOptimizer
from adagq.codecs import (
    CMFL,
    DGC,
    QSGD,
    STC,
    Clipped,
    Cocktail,
    Correlated,
    DeadZone,
    Eden,
    Either,
    ErrorFeedback,
    Fading,
    FairTopK,
    FedDQ,
    FedFQ,
    Float16,
    Float32,
    Nonzeros,
    OneBit,
    PowerSGD,
    Projection,
    SignSGD,
    Signum,
    SparseLoCo,
    TernGrad,
    TopK,
    Wangni,
)
from adagq.control import AdaComm, AdaGQ, AdaQuantFL, Controller, DAdaQuant, Fit, Fixed, Han, Lupa, NormOnly
from adagq.core.codec import Codec, Stateful
from adagq.core.errors import ConfigError
from adagq.core.registry import Registry
from adagq.server.optimizers import OPTIMIZERS, Auto, Optimizer, Plain

FIXED: Final = Fixed()
FLOAT32: Final = Float32()
PLAIN: Final = Plain()
GRADIENT: Final = SGD()
RESIDUAL: Final = "residual"  # as a suffix: error feedback at the clients
HALF: Final = "half"  # as a suffix: half of the row's local epochs


@dataclass(frozen=True)
class Method:
    """What a method sends, who decides how much, how the model moves, and how long clients train in between."""

    name: str
    label: str
    description: str
    uplink: Codec
    controller: Controller[Any] = FIXED
    epochs: float = 1  # local epochs per round; below 1 a part of one, for learners that can
    downlink: Codec = FLOAT32
    residual: bool = False  # error feedback at the clients
    optimizer: Optimizer = PLAIN  # of the server
    client_optimizer: ClientOptimizer = GRADIENT
    loop: str = "synchronous"  # of `rounds.LOOPS`
    loop_knobs: tuple[tuple[str, Any], ...] = ()  # of a loop that has some, where they differ from its own
    aggregate: str = ""  # of `server.robust.AGGREGATES`, a method's own; empty: what the settings say
    rate_curve: bool = False  # clients report the codec's rate curve of their update, for the controller
    free_links: bool = False
    compared: bool = False  # one of `adagq compare` when no methods are named
    ink: str = ""  # of report.palette; empty: the next that is free

    def sent_with(self, codec: Codec | None = None) -> Codec:
        """Return the codec of an update, error feedback included; `codec` takes the place of the row's own."""
        codec = codec or self.uplink
        return ErrorFeedback(codec) if self.residual and not isinstance(codec, Stateful) else codec


# Per-tensor max norms serve the published methods best at fixed packing (docs/simulation.md).
PACKED: Final = QSGD(levels=255, granularity="tensor", norm="max", packing="fixed")
# Few levels to begin with: nothing is known of the links in the first round, less than a bit a parameter suits most.
CODED: Final = QSGD(levels=15, granularity="tensor", norm="l2", rounding="dither", packing="entropy")
# The same for links on which a third of a bit a parameter is too much: unbiased while the mean's noise is small, else
# the largest entries with feedback that fades (docs/simulation.md has the measurements).
SHORT: Final = Fading(replace(CODED, granularity="vector"), DeadZone(), decay=0.8, limit=0.025)
FADING_DOWN: Final = ErrorFeedback(Either(replace(CODED, levels=31), DeadZone()), decay=0.9)

# For the broadcasts of rows whose papers say nothing of them: float32 takes a fifth of the time (docs/methods.md).
CODED_DOWN: Final = replace(CODED, levels=31)

METHODS: Final[Registry[Method]] = Registry("method", group="adagq.methods")
for _row in (
    Method(
        "fedavg", "FedAvg", "float32 updates, five local epochs", FLOAT32, epochs=5, compared=True, ink="green",
    ),
    Method(
        "fedavg-fp16", "FedAvg, float16", "float16 both ways, five local epochs", Float16(),
        epochs=5, downlink=Float16(), compared=True, ink="ochre",
    ),
    Method("qsgd", "QSGD", "8-bit levels", PACKED, compared=True, ink="sky"),
    Method(
        "topk", "Top-k", "the largest tenth of the entries, error feedback", TopK(fraction=0.1), residual=True,
        compared=True, ink="mauve",
    ),
    Method("fedpaq", "FedPAQ", "8-bit levels, five local epochs", PACKED, epochs=5, compared=True, ink="violet"),
    Method("adagq", "AdaGQ", "the paper's algorithm", PACKED, AdaGQ(), rate_curve=True, compared=True, ink="navy"),
    Method(
        "adagq-fit", "AdaGQ-fit", "fills every client's spare time with real bits", CODED, Fit(),
        downlink=CODED_DOWN, compared=True, ink="vermilion",
    ),
    Method(
        "adagq-auto", "AdaGQ-auto", "AdaGQ-fit with sparse codes on slow links, and a server step that finds itself",
        SHORT,
        Fit(first_bits=0.3, first_step=30.0, delay_cost=0.03, broadcast_cost=0.3, epoch_cost=0.4, max_epochs=10,
            min_epochs=0.5),
        downlink=FADING_DOWN, optimizer=Auto(), compared=True, ink="rose",
    ),
    Method(
        "ideal", "ideal", "uncompressed, free links: the reference of the tax", FLOAT32, free_links=True,
        compared=True, ink="grey",
    ),
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
    Method(
        "adagq-vote", "AdaGQ, vote", "the paper's algorithm where no single client tips the levels", PACKED,
        AdaGQ(vote="leave-one-out"), rate_curve=True,
    ),
    Method("norm-only", "norm rule", "levels follow the aggregate's norm (figure 2b)", PACKED, NormOnly()),
    # The published rows above with the knobs that the rivals' sweep found best (docs/methods.md): for the leaderboard.
    Method("fedavg-tuned", "FedAvg, tuned", "float32 updates, ten local epochs", FLOAT32, epochs=10),
    Method(
        "fedavg-fp16-tuned", "FedAvg, float16, tuned", "float16 both ways, ten local epochs", Float16(), epochs=10,
        downlink=Float16(),
    ),
    Method(
        "qsgd-tuned", "QSGD, tuned", "4-bit levels, coded broadcasts", replace(PACKED, levels=7), downlink=CODED_DOWN,
    ),
    Method(
        "topk-tuned", "Top-k, tuned", "the largest tenth of the entries up, what anybody sent down",
        TopK(fraction=0.1), residual=True, downlink=Nonzeros(),
    ),
    Method(
        "fedpaq-tuned", "FedPAQ, tuned", "4-bit levels, five local epochs", replace(PACKED, levels=7), epochs=5,
    ),
    Method(
        "adagq-tuned", "AdaGQ, tuned", "the paper's algorithm, five local epochs", PACKED, AdaGQ(), epochs=5,
        rate_curve=True,
    ),
    # Rivals without a barrier (docs/methods.md).
    Method(
        "fedbuff", "FedBuff", "float32, five local epochs, a step after every five arrivals", FLOAT32, epochs=5,
        loop="fedbuff", loop_knobs=(("arrivals", 5),),
    ),
    Method("fedasync", "FedAsync", "float32 updates, a step after every arrival", FLOAT32, loop="fedasync"),
    Method(
        "fedsa", "FedSA", "float32, ten local epochs, a step after half of the clients", FLOAT32, epochs=10,
        loop="fedsa",
    ),
    Method(
        "qafel", "QAFeL", "FedBuff with 4 bits both ways, two local epochs", replace(PACKED, levels=7), epochs=2,
        downlink=replace(PACKED, levels=7), loop="fedbuff", loop_knobs=(("arrivals", 5),),
    ),
    # Rivals' quantizers, low rank and sparsifiers, with what goes down as small where their papers say so.
    Method(
        "terngrad", "TernGrad", "-1, 0 or +1, tensors clipped at 4 sigma", Clipped(TernGrad("tensor"), 4.0),
        downlink=CODED_DOWN,
    ),
    Method(
        "onebit", "1-bit SGD", "a bit an entry both ways, error feedback", OneBit("tensor"), residual=True,
        downlink=OneBit("tensor"),
    ),
    Method(
        "ef-signsgd", "EF-signSGD", "signs both ways, error feedback", SignSGD("tensor"), residual=True,
        downlink=SignSGD("tensor"),
    ),
    Method("eden", "EDEN", "a bit an entry after a random rotation, both ways", Eden(1), downlink=Eden(1)),
    Method(
        "signsgd-vote", "signSGD, vote", "signs of a momentum up, the sign of most down", Signum(0.012, 0.9),
        downlink=SignSGD(), aggregate="majority",
    ),
    Method(
        "powersgd", "PowerSGD", "factors of rank 4 that take turns, both ways, error feedback", Projection(4),
        downlink=PowerSGD(4),
    ),
    Method("fedfq", "FedFQ", "0, 2, 4 or 8 bits for every parameter", FedFQ(0.25), downlink=CODED_DOWN),
    Method("wangni", "Wangni", "3 % of the entries, drawn without bias", Wangni(0.03), downlink=CODED_DOWN),
    Method(
        "dgc", "DGC", "the largest hundredth of a running sum with momentum", DGC(0.01, 0.8), downlink=Nonzeros(),
    ),
    Method(
        "topk-fit", "Top-k-fit", "as many entries as the time allows, decayed residual", SparseLoCo(0.25), Fit(),
        downlink=CODED_DOWN,
    ),
    Method(
        "cocktail", "CocktailSGD", "the largest of a random nine tenths, 4 bits, both ways", Cocktail(0.9),
        residual=True, downlink=Cocktail(0.9),
    ),
    Method(
        "stc", "STC", "the largest entries as signs, both ways, error feedback", STC(0.04), residual=True,
        downlink=STC(0.04),
    ),
    Method(
        "tcs", "TCS", "values where the last step was large, and a few entries more", Correlated(0.05, 0.02),
        downlink=Nonzeros(0.1),
    ),
    # Rivals that adapt.
    Method(
        "cmfl", "CMFL", "float32 or nothing if the update disagrees with the others, five local epochs",
        CMFL(FLOAT32, 0.8), epochs=5,
    ),
    Method(
        "adaquantfl", "AdaQuantFL", "levels rise as the loss falls", CODED, AdaQuantFL(levels=2), downlink=CODED_DOWN,
    ),
    Method(
        "dadaquant", "DAdaQuant", "levels double when the loss stops falling", CODED, DAdaQuant(levels=1),
        downlink=CODED_DOWN,
    ),
    Method("feddq", "FedDQ", "bits by the range of each tensor", FedDQ(0.02), downlink=CODED_DOWN),
    Method(
        "han", "Han, adaptive k", "Top-k whose k follows time per loss, chosen fairly, both ways", FairTopK(0.1),
        Han(0.2, 0.05, 0.3), downlink=Nonzeros(0.3), aggregate="fair",
    ),
    Method("adacomm", "AdaComm", "float32, fewer local epochs as the loss falls", FLOAT32, AdaComm(epochs=20)),
    Method("lupa", "LUPA-SGD", "float32, more local epochs round by round", FLOAT32, Lupa(1, 1.0)),
):  # fmt: skip
    METHODS.add(_row.name, _row)


def compared() -> tuple[str, ...]:
    """Return the rows that `adagq compare` runs unless methods are named."""
    return tuple(name for name, row in METHODS.items() if row.compared)


def method_of(name: str) -> Method:
    """Return the row called `name`; suffixes add error feedback at the clients or an optimizer, or halve the epochs.

    >>> method_of("fedpaq+residual").residual, method_of("qsgd+nesterov").optimizer, method_of("qsgd+half").epochs
    (True, Nesterov(momentum=0.7, rate=1.0), 0.5)
    """
    base, *suffixes = name.split("+")
    return with_suffixes(METHODS[base], suffixes)


def with_suffixes(row: Method, suffixes: list[str]) -> Method:
    """Return a row with what its suffixes add, under the whole name."""
    for suffix in suffixes:
        if suffix not in (RESIDUAL, HALF) and suffix not in OPTIMIZERS and suffix not in CLIENT_OPTIMIZERS:
            known = ", ".join((RESIDUAL, HALF, *OPTIMIZERS, *CLIENT_OPTIMIZERS))
            raise ConfigError(f"unknown suffix {suffix!r} of {row.name!r}; known: {known}")
        name, label = f"{row.name}+{suffix}", f"{row.label} + {suffix}"
        if suffix == RESIDUAL:
            row = replace(row, name=name, label=label, residual=True)
        elif suffix == HALF:
            row = replace(row, name=name, label=label, epochs=row.epochs / 2)
        elif suffix in CLIENT_OPTIMIZERS:
            row = replace(row, name=name, label=label, client_optimizer=CLIENT_OPTIMIZERS[suffix]())
        else:
            row = replace(row, name=name, label=label, optimizer=OPTIMIZERS[suffix]())
    return row
