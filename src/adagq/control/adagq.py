"""The paper's controller: how many levels on average, then how many each.

    R  = (L_{k-1} - L_k ) / T         L: mean of the losses that the clients reported
    R' = (L_{k-1} - L'_k) / T'        ': had the round used s' = floor(s / 2) instead of s
    T  = max_i(t_cp + t_cm + t_down) + t_server,      T' the same with t_cm * bits_i(b'_i) / bits_i(b_i)
    s_hat   = s / 2 if sign((R' - R) / (s - s')) > 0,  2 s if < 0,  s if 0
    s_{k+1} = clip(s_hat + norm_gain * (log2||g_k|| - log2||g_{k-1}||), levels_min, levels_max)
    s_i     = 2^{b_i} - 1 with b_i from `allocate` at mean s_{k+1}

`s` stays a real number: replacing it by the mean of the rounded s_i would drift to the floor. At the floor
there is no lower probe, so s' = 2 s; the sign covers it. These are the paper's rules to the letter, with what
they do at a plateau: a loss that no longer falls makes R' < R (T' is shorter) and s doubles up to its cap.
`adagq-fit` is the controller that does not.

A mean of losses is one client's to tip where R' - R is near zero, and two bits at once. With `vote = "leave-one-out"`
every client has one vote v_i, the sign of its own R' - R, where T and T' are means over the clients, without the
fastest and the slowest, in place of the largest:

    s_hat = s 2^(-v sign(s - s')),    v = the smallest in size of sum_{i != j} v_i / (n - 1) over all j

All of one mind halve or double s as in the paper; one client of n moves it by 2 / (n - 1) bits at most.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, ClassVar, Literal

from adagq.control.allocate import allocate, bits_of, levels_of
from adagq.control.controller import (
    Pair,
    at_levels,
    number_from_json,
    number_to_json,
    plausible_loss,
    plausible_seconds,
    usable_norm,
)
from adagq.control.history import History, believed_curves
from adagq.control.registry import CONTROLLERS
from adagq.core.codec import LEVEL_BITS, MAX_LEVELS, Codec
from adagq.core.errors import ConfigError
from adagq.core.messages import Choice, Facts, Receipt


@dataclass(frozen=True, slots=True)
class AdaGQState:
    """s_k, the norm of the last aggregate that had one, and what is known of each client."""

    round: int
    mean_levels: float
    norm: float
    history: History

    def to_json(self) -> dict[str, Any]:
        return {
            "round": self.round,
            "mean_levels": self.mean_levels,
            "norm": number_to_json(self.norm),
            "history": self.history.to_json(),
        }


@CONTROLLERS.register("adagq")
@dataclass(frozen=True, slots=True)
class AdaGQ:
    """The paper's algorithm; two switches ablate it.

    `adaptive=False` keeps the mean at `levels`; `heterogeneous=False` gives all clients the same levels.
    `rates` is what stands for bits_i(b): the codec's rate curve, or the paper's plain b. `vote` is how the sign is
    found: from the mean of the losses, as in the paper, or by a majority that no single client makes.

    >>> from adagq.codecs import QSGD
    >>> controller = AdaGQ()
    >>> state = controller.observe(controller.init(2), Facts(1, (), (), math.nan, 0.0))
    >>> controller.choose(state, [0, 1], QSGD())[0].codec.levels
    255
    >>> [codec.levels for codec in controller.probe(state, [0, 1], QSGD())[0]]
    [255, 127]
    """

    reads_losses: ClassVar[bool] = True

    levels: float = 255.0  # s_0
    norm_gain: float = 1.0  # the paper's lambda_g
    levels_min: float = 1.0
    levels_max: float = float(MAX_LEVELS)
    b_min: int = 1
    b_max: int = LEVEL_BITS
    adaptive: bool = True
    heterogeneous: bool = True
    rates: Literal["curve", "paper"] = "curve"
    vote: Literal["mean", "leave-one-out"] = "mean"

    def __post_init__(self) -> None:
        if not 1 <= self.b_min < self.b_max <= LEVEL_BITS:
            raise ConfigError(
                f"b_min = {self.b_min!r}, b_max = {self.b_max!r}: must be 1 <= b_min < b_max <= {LEVEL_BITS}"
            )
        if not 1 <= self.levels_min <= self.levels_max / 2 <= MAX_LEVELS / 2:
            raise ConfigError(
                f"levels_min = {self.levels_min!r}, levels_max = {self.levels_max!r}: "
                f"must be 1 <= levels_min <= levels_max / 2, levels_max <= {MAX_LEVELS}"
            )
        if not self.levels_min <= self.levels <= self.levels_max:
            raise ConfigError(f"levels = {self.levels!r}: must be in {self.levels_min} … {self.levels_max}")
        if not math.isfinite(self.norm_gain):
            raise ConfigError(f"norm_gain = {self.norm_gain!r}: must be a finite number")
        if self.rates not in ("curve", "paper"):
            raise ConfigError(f"rates = {self.rates!r}: must be 'curve' or 'paper'")
        if self.vote not in ("mean", "leave-one-out"):
            raise ConfigError(f"vote = {self.vote!r}: must be 'mean' or 'leave-one-out'")

    def init(self, clients: int) -> AdaGQState:
        return AdaGQState(0, float(self.levels), math.nan, History.blank(clients))

    def observe(self, state: AdaGQState, facts: Facts) -> AdaGQState:
        return AdaGQState(
            round=facts.round,
            mean_levels=self._adapted(state, facts) if self.adaptive else state.mean_levels,
            norm=facts.norm if usable_norm(facts.norm) else state.norm,
            history=state.history.extended(facts.receipts),
        )

    def choose(self, state: AdaGQState, cohort: Sequence[int], codec: Codec) -> dict[int, Choice]:
        levels = self._assigned(state, cohort, state.mean_levels)
        return {client: Choice(at_levels(codec, s)) for client, s in zip(cohort, levels, strict=True)}

    def probe(self, state: AdaGQState, cohort: Sequence[int], codec: Codec) -> dict[int, Pair]:
        if not self.adaptive or state.round == 0:  # before the first aggregate there is nothing to re-quantize
            return {}
        levels = self._assigned(state, cohort, state.mean_levels)
        probes = self._assigned(state, cohort, self._probe_mean(state.mean_levels))
        pairs = zip(cohort, levels, probes, strict=True)
        return {client: (at_levels(codec, s), at_levels(codec, p)) for client, s, p in pairs}

    def broadcast(self, state: AdaGQState, elements: int) -> int | None:
        return None

    def from_json(self, data: Mapping[str, Any]) -> AdaGQState:
        return AdaGQState(
            round=int(data["round"]),
            mean_levels=float(data["mean_levels"]),
            norm=number_from_json(data["norm"]),
            history=History.from_json(data["history"]),
        )

    def _assigned(self, state: AdaGQState, cohort: Sequence[int], mean_levels: float) -> list[int]:
        """Return s_i of every client of the cohort."""
        if state.history.empty:
            return [math.floor(mean_levels)] * len(cohort)  # the first round: s_0 as it was set
        if not self.heterogeneous:
            bits = min(max(bits_of(mean_levels), self.b_min), self.b_max)
            return [levels_of(bits)] * len(cohort)
        compute, pace, rates = state.history.estimates(cohort, curves=self.rates == "curve")
        allocated = allocate(compute, pace, rates, mean_levels, self.b_min, self.b_max)
        return [levels_of(b) for b in allocated.tolist()]

    def _probe_mean(self, mean_levels: float) -> float:
        """Return s' = floor(s / 2), or 2 s at the floor."""
        half = math.floor(mean_levels / 2)
        return float(half) if half >= self.levels_min else 2 * mean_levels

    def _adapted(self, state: AdaGQState, facts: Facts) -> float:
        """Return s_{k+1}."""
        if not usable_norm(facts.norm):  # nothing was aggregated, so nothing was probed
            return state.mean_levels
        slope = self._slope(state, facts)
        bits = slope if self.vote == "leave-one-out" else float((slope > 0) - (slope < 0))
        moved = state.mean_levels * math.exp2(-bits)
        if usable_norm(state.norm):
            moved += self.norm_gain * (math.log2(facts.norm) - math.log2(state.norm))
        return min(max(moved, self.levels_min), self.levels_max)

    def _slope(self, state: AdaGQState, facts: Facts) -> float:
        """Return a number with the sign of (R' - R) / (s - s'), a vote's in bits; 0 if too little arrived to tell."""
        losses = {
            report.client: triple
            for report in facts.reports
            if all(map(plausible_loss, triple := (report.loss_before, report.loss_after, report.loss_probe)))
        }
        timed = [receipt for receipt in facts.receipts if _timed(receipt)]
        if not losses or not timed:
            return 0.0
        probe_mean = self._probe_mean(state.mean_levels)
        seconds = self._client_seconds(state, timed, probe_mean)
        server_seconds = facts.server_seconds if plausible_seconds(facts.server_seconds) else 0.0
        typical = max if self.vote == "mean" else trimmed_mean
        whole, probed_whole = (typical(column) + server_seconds for column in zip(*seconds.values(), strict=True))
        if self.vote == "leave-one-out":
            return voted(losses, whole, probed_whole) * math.copysign(1.0, state.mean_levels - probe_mean)
        if min(whole, probed_whole) <= 0.0:
            return 0.0
        before, after, probed = (fmean(column) for column in zip(*losses.values(), strict=True))
        return ((before - probed) / probed_whole - (before - after) / whole) * (state.mean_levels - probe_mean)

    def _client_seconds(
        self, state: AdaGQState, receipts: Sequence[Receipt], probe_mean: float
    ) -> dict[int, tuple[float, float]]:
        """Return every client's part of T and of T'.

        Both b and b' are derived from what was known when the round's levels were chosen, over the clients
        that delivered: like for like also when some dropped out.
        """
        cohort = [receipt.client for receipt in receipts]
        levels = self._assigned(state, cohort, state.mean_levels)
        probes = self._assigned(state, cohort, probe_mean)
        seconds: dict[int, tuple[float, float]] = {}
        for receipt, believed, s, s_probe in zip(receipts, believed_curves(receipts), levels, probes, strict=True):
            others = receipt.download_seconds + receipt.compute_seconds
            b, b_probe = bits_of(s), bits_of(s_probe)
            ratio = b_probe / b
            if self.rates == "curve" and believed:
                ratio = receipt.rate_bits[b_probe - 1] / receipt.rate_bits[b - 1]
            seconds[receipt.client] = others + receipt.upload_seconds, others + ratio * receipt.upload_seconds
        return seconds


def voted(losses: Mapping[int, tuple[float, float, float]], whole: float, probed_whole: float) -> float:
    """Return the clients' mean vote on the sign of R' - R, without the one that would make it smallest.

    >>> voted({client: (1.0, 0.5, 0.5) for client in range(5)}, 2.0, 1.0)      # the probe: as good, in half the time
    1.0
    >>> voted({0: (1.0, 0.5, 0.5), 1: (1.0, 0.5, 0.9)}, 2.0, 1.0)
    0.0
    """
    if len(losses) < 2 or min(whole, probed_whole) <= 0.0:
        return 0.0
    rates = (((before - probed) / probed_whole, (before - after) / whole) for before, after, probed in losses.values())
    votes = sum((probed > own) - (probed < own) for probed, own in rates)
    return math.copysign(max(abs(votes) - 1, 0), votes) / (len(losses) - 1)


def trimmed_mean(values: Sequence[float]) -> float:
    """Return the mean without the largest and the smallest; of one or two the mean.

    >>> trimmed_mean([1.0, 5.0, 2.0, 3.0]), trimmed_mean([1.0, 2.0])
    (2.5, 1.5)
    """
    return fmean(sorted(values)[1:-1] if len(values) > 2 else values)


def _timed(receipt: Receipt) -> bool:
    return (
        plausible_seconds(receipt.download_seconds)
        and plausible_seconds(receipt.compute_seconds)
        and plausible_seconds(receipt.upload_seconds)
    )
