"""adagq-fit: steer the round's finishing time, and fill every client's spare time with real bits.

Given a finishing time tau, equal finishing fixes what every client may send: (tau - t_down_i - t_cp_i) rate_i bytes.
So tau is the variable to adapt. A round of length T(tau) = tau + t_server makes progress as if its noise slowed it by
1 + kappa NSR, where NSR is the noise-to-signal energy of the averaged update: for a smooth loss and a step that is
not too long, kappa <= 1. So tau minimises the time per unit of progress

    J(tau) = T(tau) (1 + kappa NSR(tau)),      NSR(tau) = sum_i p_i^2 NMSE_i(B_i(tau)) ||u_i||^2 / ||g||^2

which is the paper's objective, the loss decrease per second, without its noise: nothing here is a difference of two
losses, so nothing runs away where the loss no longer falls. NMSE_i at other sizes follows from the last payload's own
size and error, both known exactly: NMSE(b) = 1 / (4^b - 1), the form of the unbiased bound, with b proportional to the
bytes. The broadcast is sized by the same rule: its bytes cost every client's download, its error is noise for all.

Where links are so slow that even few bits outlast the computing, clients had better compute more before they talk: the
number of local epochs is the E whose J(tau, E) (1 + epoch_cost (E - 1)) / E is smallest, if that is a few per cent
less than with the present number. `epoch_cost` is what the paper's FedAvg loses: its five epochs take it as far as 3.3
single ones. A server optimizer with momentum goes that far by itself: with `auto` it is 0.4 (docs/simulation.md).

Where links are fast a round may also have a part of an epoch (`min_epochs`), by the same rule, unless its payloads
would be mostly noise, or leave most of it for later: half the bytes twice as often carry less, and rounds were twice as
many (digits, links ten times slower than the paper's).

A sparse payload (one without levels, `codecs.fading`) is late rather than noisy: what it leaves behind comes with the
next ones. Where `delay_cost` is set, such clients add delay_cost sum_i p_i D_i / (1 - D_i) to 1 + kappa NSR, D being
the share of the energy that is left behind: D / (1 - D) rounds is how late it arrives.

The first payload is a probe: nothing is known of the links. `first_bits` a parameter make it the same on every model,
where a number of levels is fewer bits the larger a tensor is; from it `first_step` leads to the useful size at once. It
is unbiased, noisy as it may be: the first step is the longest, and what a sparse payload left of it would come late.

A link that strays from round to round (`spread`) is planned for at a rate that it usually has at least.

No single client steers the others: what is known of it, and how far it is believed, is `fit_state`'s. One that needs
several times as long as nine in ten does not hold up tau: the round lasts as long as that client takes and nobody
else's payload changes.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.control.controller import Pair, at_levels
from adagq.control.fit_state import (
    LOUD,
    SPARSE_GAIN,
    FitState,
    FloatArray,
    filled,
    from_json,
    late_at,
    learn,
    left_at,
    nmse_at,
    unknown,
)
from adagq.control.registry import CONTROLLERS
from adagq.core.codec import MAX_LEVELS, Averaged, Codec
from adagq.core.errors import ConfigError
from adagq.core.messages import Choice, Facts

GRID = 96
PACKET = 1400  # bytes: a payload below it saves no time, and of a tiny model's little would be left beside the frame
LEAST_FIRST_BITS, MOST_FIRST_BITS = 0.8, 4.0  # a parameter, of the first broadcast
ALL = 10**9  # clients whose mean has no noise: a codec that chooses by it (`Averaged`) is unbiased over so many
MOST_LEFT, MOST_NOISE = 0.5, 1.0  # of the energy: of a part of an epoch, by sparse and by dense payloads
SMALLEST_PART = 1 / 64  # of an epoch
WORTH = 0.97  # of the present time per unit of progress: what makes another number of epochs worth a change


@CONTROLLERS.register("fit")
@dataclass(frozen=True, slots=True)
class Fit:
    """`noise_cost`: kappa; `broadcast_cost`: the same for the broadcast, whose error feedback repays most of it.

    >>> from adagq.codecs import QSGD
    >>> controller = Fit()
    >>> controller.choose(controller.init(2), [0, 1], QSGD())[0].budget_bytes is None  # nothing is known yet
    True
    """

    noise_cost: float = 0.1
    broadcast_cost: float = 0.05
    step: float = 3.0  # budgets change by this factor a round at most: the error model is local
    max_epochs: int = 5
    min_epochs: float = 1.0  # below 1: a round may have a part of an epoch, where clients can and it pays
    epoch_cost: float = 0.13
    first_bits: float = 0.0  # a parameter: the first payload, which probes the links; 0 leaves it to the codec
    first_step: float = 0.0  # the factor after the first payload; 0: `step`
    delay_cost: float = 0.0  # of what a sparse payload leaves for later; 0: its error counts as noise

    def __post_init__(self) -> None:
        for name, low in (("noise_cost", 0.0), ("broadcast_cost", 0.0), ("step", 1.0), ("epoch_cost", 0.0)):
            if not low < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} = {getattr(self, name)!r}: must be a number above {low:g}")
        if not 0.0 <= self.first_bits < math.inf:
            raise ConfigError(f"first_bits = {self.first_bits!r}: must be a number >= 0")
        if self.first_step != 0.0 and not 1.0 < self.first_step < math.inf:
            raise ConfigError(f"first_step = {self.first_step!r}: must be 0 or a number above 1")
        if self.max_epochs < 1:
            raise ConfigError(f"max_epochs = {self.max_epochs!r}: must be a whole number >= 1")
        if not 0.0 < self.min_epochs <= 1.0:
            raise ConfigError(f"min_epochs = {self.min_epochs!r}: must be a number above 0 and at most 1")
        if not 0.0 <= self.delay_cost < math.inf:
            raise ConfigError(f"delay_cost = {self.delay_cost!r}: must be a number >= 0")

    def init(self, clients: int) -> FitState:
        return unknown(clients)

    def observe(self, state: FitState, facts: Facts) -> FitState:
        learnt = learn(state, facts)
        known = np.flatnonzero(learnt.known)
        return self._steered(learnt, known) if learnt is not state and known.size else learnt

    def _steered(self, state: FitState, known: NDArray[np.int64]) -> FitState:
        """Return the state with the epochs and the finishing time of the next round."""
        state = replace(state, reach=self.step if math.isfinite(state.tau) else self.first_step or self.step)
        tried = [self._with_epochs(state, known, epochs) for epochs in self._epochs(state)]
        present = min(tried, key=lambda one: abs(one[0].epochs - state.epochs))
        best = min(tried, key=lambda one: one[1])
        return best[0] if best[1] < WORTH * present[1] else present[0]

    def _epochs(self, state: FitState) -> Iterator[float]:
        """Yield the numbers of epochs to choose from: whole ones, and halves of halves as far as clients can."""
        yield from map(float, range(1, self.max_epochs + 1))
        part = 0.5
        while part >= max(self.min_epochs, state.least_epochs, SMALLEST_PART):
            yield part
            part /= 2

    def _with_epochs(self, state: FitState, known: NDArray[np.int64], epochs: float) -> tuple[FitState, float]:
        """Return the state for a round of so many local epochs, and its seconds per unit of progress."""
        busy = np.maximum(state.busy_seconds + (epochs - state.epochs) * state.epoch_seconds, 0.0)
        tried = replace(state, busy_seconds=busy, epochs=float(epochs))
        tau, cost = self._best_tau(tried, known)
        if epochs < 1.0 and self._is_too_little(filled(tried, known), tau, state.reach):
            cost = math.inf
        return replace(tried, tau=tau), cost * (1.0 + self.epoch_cost * (epochs - 1)) / epochs

    def _is_too_little(self, columns: Mapping[str, FloatArray], tau: float, reach: float) -> bool:
        """Whether most payloads of a round that ends at tau would be mostly noise, or leave most for later."""
        sizes = self._budgets(columns, np.array([tau]), reach)
        sparse = left_at(columns["nmse"], columns["nbytes"], sizes) > MOST_LEFT
        noisy = nmse_at(columns["nmse"], columns["nbytes"], sizes) > MOST_NOISE
        return bool(np.median(np.where(columns["levels"][:, None] == 0, sparse, noisy)) > 0.0)

    def choose(self, state: FitState, cohort: Sequence[int], codec: Codec) -> dict[int, Choice]:
        if not math.isfinite(state.tau):
            unbiased = codec.over(ALL) if isinstance(codec, Averaged) else None
            return {client: Choice(unbiased, budget_bits=self.first_bits) for client in cohort}
        columns = filled(state, cohort)
        codec = codec.over(len(cohort)) if isinstance(codec, Averaged) else codec
        budgets = self._budgets(columns, np.array([state.tau]), state.reach)[:, 0]
        return {
            client: Choice(at_levels(codec, min(max(int(s), 0), MAX_LEVELS)), max(int(b), 1), state.epochs)
            for client, s, b in zip(cohort, columns["levels"], budgets, strict=True)
        }

    def probe(self, state: FitState, cohort: Sequence[int], codec: Codec) -> dict[int, Pair]:
        return {}

    def broadcast(self, state: FitState, elements: int) -> int | None:
        """Return the bytes of the aggregate's payload, the same for all: minimise seconds + T cost D / (1 - D).

        D is the share of the energy that stays behind as residual: D / (1 - D) rounds is how late it arrives. The first
        broadcast is sized by the first uploads: what their bits lost, and downlinks as fast as the median uplink.
        """
        if not math.isfinite(state.tau):
            return None
        if math.isfinite(state.broadcast_nmse * state.broadcast_bytes):
            sizes = state.broadcast_bytes * np.geomspace(1 / state.reach, state.reach, GRID)
            lost = np.clip(state.broadcast_nmse, 1e-9, 0.999) ** (sizes / state.broadcast_bytes)  # 4^-b, b by bytes
            pace = state.download_seconds_per_byte
        elif self.first_bits > 0.0:
            bits = np.geomspace(LEAST_FIRST_BITS, MOST_FIRST_BITS, GRID)
            sizes, lost = bits * elements / 8.0, self._lost_at(state, bits)
            pace = self._assumed_pace(state, elements)
        else:
            return None
        cost = sizes * pace + (state.tau + state.server_seconds) * self.broadcast_cost * lost / (1.0 - lost)
        return max(int(sizes[np.argmin(cost)]), PACKET)

    def _lost_at(self, state: FitState, bits: FloatArray) -> FloatArray:
        """Return what so many bits a parameter leave behind of a step, from what `first_bits` left of the updates."""
        sparse = float(np.nanmedian(np.clip(state.nmse, 1e-9, 0.98))) ** ((bits / self.first_bits) ** SPARSE_GAIN)
        lost: FloatArray = np.minimum(4.0**-bits, sparse)
        return lost

    def _assumed_pace(self, state: FitState, elements: int) -> float:
        """Return the seconds per byte of a download, while none was seen; a stand-in's bytes count several times."""
        counted = float(np.nanmedian(state.nbytes)) / (self.first_bits * elements / 8.0)
        return counted / float(np.nanmedian(state.rate))

    def from_json(self, data: Mapping[str, Any]) -> FitState:
        return from_json(data)

    def _best_tau(self, state: FitState, cohort: NDArray[np.int64]) -> tuple[float, float]:
        """Return (tau, J(tau)) where J is smallest."""
        columns = filled(state, cohort)
        busy, weight = columns["busy_seconds"], columns["examples"]
        share = weight / weight.sum()
        with np.errstate(over="ignore"):
            energy = np.minimum(columns["energy"], LOUD * np.median(columns["energy"]))
        first = float(busy.max())
        span = first or float(np.median(columns["nbytes"] / columns["rate"]))  # of clients that compute in no time
        taus = first + np.geomspace(1e-3, 10.0, GRID) * span
        sizes = self._budgets(columns, taus, state.reach)
        noise = nmse_at(columns["nmse"], columns["nbytes"], sizes)
        signal = state.signal if math.isfinite(state.signal) else float((share * energy).sum())
        with np.errstate(over="ignore"):
            sparse = (columns["levels"] == 0) & (self.delay_cost > 0.0)
            noisy = np.where(sparse, 0.0, share**2 * energy)
            nsr = (noisy @ noise + state.noise_energy) / max(signal, 1e-300)
            late = np.where(sparse, share, 0.0) @ late_at(columns["nmse"], columns["nbytes"], sizes)
            # Later than tau where `step` binds; the ninth decile, so that no single client's account stretches it.
            arrivals = busy[:, None] + sizes / careful_rate(columns)[:, None]
            finish = np.quantile(arrivals, 0.9, axis=0, method="higher")
            cost = (finish + state.server_seconds) * (1.0 + self.noise_cost * nsr + self.delay_cost * late)
        least = int(np.argmin(cost))
        return float(taus[least]), float(cost[least])

    def _budgets(self, columns: Mapping[str, FloatArray], taus: FloatArray, reach: float) -> FloatArray:
        """Return bytes [client, tau] that arrive in time, at most a factor `reach` from the last upload's; a packet."""
        spare = np.maximum(taus[None] - columns["busy_seconds"][:, None], 0.0)
        last = columns["nbytes"][:, None]
        sizes: FloatArray = np.clip(spare * careful_rate(columns)[:, None], last / reach, last * reach)
        return np.maximum(sizes, PACKET)


def careful_rate(columns: Mapping[str, FloatArray]) -> FloatArray:
    """Return the uplinks' rates with a margin for those that stray: what a link is usually at least."""
    rates: FloatArray = columns["rate"] * np.exp(-columns["spread"])
    return rates
