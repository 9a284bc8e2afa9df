"""DAdaQuant (Hönig et al. 2022): levels double when the loss stops falling; clients with more examples get more.

    time      m_k = decay m_{k-1} + (1 - decay) F_k;   q doubles if m_k >= m_{k - patience}, at most once in that time
    clients   q_i = max(1, round(sqrt(a / b) w_i^(2/3))),   a = sum_j w_j^(2/3),   b = sum_j w_j^2 / q^2

w_i is client i's share of the examples. The second rule leaves the variance of the mean as it is with q for all and
saves bits. `patience` is a tenth of the rounds in the paper; the rounds are not known here, so it is a knob.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from adagq.control.controller import Pair, at_levels
from adagq.control.loss_rules import mean_loss
from adagq.control.registry import CONTROLLERS
from adagq.core.codec import MAX_LEVELS, Codec
from adagq.core.errors import ConfigError
from adagq.core.messages import Choice, Facts


@dataclass(frozen=True, slots=True)
class DAdaQuantState:
    """q, the loss's moving averages since it last changed, and the examples of each client that was met."""

    levels: int
    averages: tuple[float, ...] = ()
    examples: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        examples = {str(client): count for client, count in self.examples.items()}
        return {"levels": self.levels, "averages": list(self.averages), "examples": examples}


@CONTROLLERS.register("dadaquant")
@dataclass(frozen=True, slots=True)
class DAdaQuant:
    """The rules above, from `levels` on.

    >>> from adagq.codecs import QSGD
    >>> state = DAdaQuantState(8, examples={0: 100, 1: 800})
    >>> [choice.codec.levels for choice in DAdaQuant().choose(state, [0, 1], QSGD()).values()]
    [2, 9]
    """

    reads_losses: ClassVar[bool] = True

    levels: int = 1
    decay: float = 0.9
    patience: int = 10
    levels_max: int = 255

    def __post_init__(self) -> None:
        if not 1 <= self.levels <= self.levels_max <= MAX_LEVELS:
            raise ConfigError(
                f"levels = {self.levels!r}, levels_max = {self.levels_max!r}: "
                f"must be 1 <= levels <= levels_max <= {MAX_LEVELS}"
            )
        if not 0.0 <= self.decay < 1.0 or self.patience < 1:
            raise ConfigError(f"decay = {self.decay!r}, patience = {self.patience!r}: must be in 0 … 1, and >= 1")

    def init(self, clients: int) -> DAdaQuantState:
        return DAdaQuantState(self.levels)

    def observe(self, state: DAdaQuantState, facts: Facts) -> DAdaQuantState:
        examples = {**state.examples, **{receipt.client: receipt.examples for receipt in facts.receipts}}
        loss = mean_loss(facts.receipts)
        if math.isnan(loss):
            return DAdaQuantState(state.levels, state.averages, examples)
        average = self.decay * state.averages[-1] + (1.0 - self.decay) * loss if state.averages else loss
        averages = (*state.averages, average)[-self.patience - 1 :]
        if len(averages) > self.patience and averages[-1] >= averages[0] and state.levels < self.levels_max:
            return DAdaQuantState(min(2 * state.levels, self.levels_max), (average,), examples)
        return DAdaQuantState(state.levels, averages, examples)

    def choose(self, state: DAdaQuantState, cohort: Sequence[int], codec: Codec) -> dict[int, Choice]:
        if not all(client in state.examples for client in cohort):
            return {client: Choice(at_levels(codec, state.levels)) for client in cohort}
        total = sum(state.examples[client] for client in cohort)
        shares = {client: state.examples[client] / total for client in cohort}
        a = sum(share ** (2 / 3) for share in shares.values())
        b = sum(share**2 for share in shares.values()) / state.levels**2
        levels = {client: max(round(math.sqrt(a / b) * share ** (2 / 3)), 1) for client, share in shares.items()}
        return {client: Choice(at_levels(codec, min(each, MAX_LEVELS))) for client, each in levels.items()}

    def probe(self, state: DAdaQuantState, cohort: Sequence[int], codec: Codec) -> dict[int, Pair]:
        return {}

    def broadcast(self, state: DAdaQuantState, elements: int) -> int | None:
        return None

    def from_json(self, data: Mapping[str, Any]) -> DAdaQuantState:
        examples = {int(client): int(count) for client, count in data["examples"].items()}
        return DAdaQuantState(int(data["levels"]), tuple(map(float, data["averages"])), examples)
