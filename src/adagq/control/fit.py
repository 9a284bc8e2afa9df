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
number of local epochs E goes up or down by one a round where J(tau, E) (1 + epoch_cost (E - 1)) / E is smaller by a few
per cent. `epoch_cost` is what the paper's FedAvg loses: its five epochs take it as far as 3.3 single ones.

No single client steers the others. One that needs OUTLIER times as long as nine in ten of them, by misfortune or by
its own account, does not hold up tau: it is planned for as a client of median speed, so the round lasts as long as that
client takes and nobody else's payload changes. Energies count up to LOUD times their median. A payload's size and error
belong together, since all use one codec: who claims bits that are worth CREDIBLE times more or less than most clients'
is taken to be at that limit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.codecs import MAX_LEVELS
from adagq.control.controller import Probe, plausible_seconds, usable_norm
from adagq.errors import ConfigError
from adagq.messages import Broadcast, Choice, Facts, Receipt

FloatArray = NDArray[np.float64]
COLUMNS = ("busy_seconds", "rate", "nbytes", "nmse", "energy", "examples", "levels", "epoch_seconds")
GRID = 96
SMOOTHING = 0.3  # of compute times and rates: the weight of the newest
OUTLIER = 3.0  # times the ninth decile of the seconds, and the client waits for no one and no one for it
WORTH = 0.97  # of the present time per unit of progress: what makes another number of epochs worth a change
LOUD = 10.0  # times the median of the energies: what one client counts at most
CREDIBLE = 3.0  # times the median of the bits (as the error tells) per byte (as was sent), up and down


@dataclass(frozen=True, slots=True, eq=False)
class FitState:
    """Columns over clients (NaN where nothing is known), the last broadcast, and the aggregate's energy."""

    busy_seconds: FloatArray  # download and compute: what passes before the upload
    rate: FloatArray  # bytes per second upwards
    nbytes: FloatArray  # of the last upload
    nmse: FloatArray  # of the last upload
    energy: FloatArray  # ||u||^2 of the last upload
    examples: FloatArray
    levels: FloatArray  # of the last upload: where the client begins to look for those that fill its budget
    epoch_seconds: FloatArray  # compute seconds of one local epoch
    server_seconds: float = 0.0
    signal: float = math.nan  # ||g||^2 without the quantizers' noise
    download_seconds_per_byte: float = math.nan  # of the slowest client
    broadcast_bytes: float = math.nan
    broadcast_nmse: float = math.nan
    tau: float = math.nan
    epochs: float = 1.0  # of the round that `busy_seconds` and `tau` are for

    @property
    def known(self) -> NDArray[np.bool_]:
        return np.isfinite(self.busy_seconds) & np.isfinite(self.rate) & np.isfinite(self.nmse)

    def to_json(self) -> dict[str, Any]:
        columns = {name: [_plain(v) for v in getattr(self, name)] for name in COLUMNS}
        return columns | {name: _plain(getattr(self, name)) for name in self.__slots__ if name not in COLUMNS}


@dataclass(frozen=True, slots=True)
class Fit:
    """`noise_cost`: kappa; `broadcast_cost`: the same for the broadcast, whose error feedback repays most of it.

    >>> controller = Fit()
    >>> controller.choose(controller.init(2), [0, 1])[0].budget_bytes is None  # nothing known yet: the codec as it is
    True
    """

    noise_cost: float = 0.1
    broadcast_cost: float = 0.05
    step: float = 3.0  # budgets change by this factor a round at most: the error model is local
    max_epochs: int = 5
    epoch_cost: float = 0.13

    def __post_init__(self) -> None:
        for name, low in (("noise_cost", 0.0), ("broadcast_cost", 0.0), ("step", 1.0), ("epoch_cost", 0.0)):
            if not low < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} = {getattr(self, name)!r}: must be a number above {low:g}")
        if self.max_epochs < 1:
            raise ConfigError(f"max_epochs = {self.max_epochs!r}: must be a whole number >= 1")

    def init(self, clients: int) -> FitState:
        columns: dict[str, Any] = {name: np.full(clients, np.nan) for name in COLUMNS}
        return FitState(**columns)

    def observe(self, state: FitState, facts: Facts) -> FitState:
        receipts = [r for r in facts.receipts if _plausible(r)]
        if not receipts:
            return state
        state = _recorded(state, receipts)
        state = replace(state, server_seconds=_seconds(facts.server_seconds))
        if usable_norm(facts.norm) and usable_norm(squared := facts.norm * facts.norm):
            state = replace(state, signal=_signal(squared, receipts))
        state = _with_broadcast(state, facts.broadcast, receipts)
        known = np.flatnonzero(state.known)
        return self._steered(state, known) if known.size else state

    def _steered(self, state: FitState, known: NDArray[np.int64]) -> FitState:
        """Return the state with the epochs and the finishing time of the next round."""
        best, least = state, math.inf
        for change in (0, -1, 1):
            epochs = state.epochs + change
            if not 1 <= epochs <= self.max_epochs:
                continue
            busy = np.maximum(state.busy_seconds + (epochs - state.epochs) * state.epoch_seconds, 0.0)
            tried = replace(state, busy_seconds=busy, epochs=epochs)
            tau, cost = self._best_tau(tried, known)
            cost *= (1.0 + self.epoch_cost * (epochs - 1)) / epochs
            if cost < least * (WORTH if least < math.inf else 1.0):
                best, least = replace(tried, tau=tau), cost
        return best

    def choose(self, state: FitState, cohort: Sequence[int]) -> dict[int, Choice]:
        if not math.isfinite(state.tau):
            return {client: Choice() for client in cohort}
        columns = _filled(state, cohort)
        budgets = self._budgets(columns, np.array([state.tau]))[:, 0]
        return {
            client: Choice(min(max(int(s), 0), MAX_LEVELS), max(int(b), 1), int(state.epochs))
            for client, s, b in zip(cohort, columns["levels"], budgets, strict=True)
        }

    def probe(self, state: FitState, cohort: Sequence[int]) -> dict[int, Probe]:
        return {client: Probe() for client in cohort}

    def broadcast(self, state: FitState) -> Choice:
        """Return the bytes of the aggregate's payload, the same for all: minimise seconds + T cost D / (1 - D).

        D is the share of the energy that stays behind as residual: D / (1 - D) rounds is how late it arrives.
        """
        if not math.isfinite(state.broadcast_nmse * state.broadcast_bytes * state.tau):
            return Choice()
        factors = np.geomspace(1 / self.step, self.step, GRID)
        lost = np.clip(state.broadcast_nmse, 1e-9, 0.999) ** factors  # 4^-b, b proportional to the bytes
        seconds = state.broadcast_bytes * factors * state.download_seconds_per_byte
        cost = seconds + (state.tau + state.server_seconds) * self.broadcast_cost * lost / (1.0 - lost)
        return Choice(budget_bytes=int(state.broadcast_bytes * factors[np.argmin(cost)]))

    def from_json(self, data: Mapping[str, Any]) -> FitState:
        columns: dict[str, Any] = {name: np.array([_number(v) for v in data[name]], np.float64) for name in COLUMNS}
        return FitState(**columns | {name: _number(v) for name, v in data.items() if name not in COLUMNS})

    def _best_tau(self, state: FitState, cohort: NDArray[np.int64]) -> tuple[float, float]:
        """Return (tau, J(tau)) where J is smallest."""
        columns = _filled(state, cohort)
        busy, weight = columns["busy_seconds"], columns["examples"]
        share = weight / weight.sum()
        with np.errstate(over="ignore"):
            energy = np.minimum(columns["energy"], LOUD * np.median(columns["energy"]))
        first = float(busy.max())
        span = first or float(np.median(columns["nbytes"] / columns["rate"]))  # of clients that compute in no time
        taus = first + np.geomspace(1e-3, 10.0, GRID) * span
        sizes = self._budgets(columns, taus)
        noise = _nmse_at(columns["nmse"], columns["nbytes"], sizes)
        signal = state.signal if math.isfinite(state.signal) else float((share * energy).sum())
        with np.errstate(over="ignore"):
            nsr = (share**2 * energy) @ noise / max(signal, 1e-300)
            # Later than tau where `step` binds; the ninth decile, so that no single client's account stretches it.
            arrivals = busy[:, None] + sizes / columns["rate"][:, None]
            finish = np.quantile(arrivals, 0.9, axis=0, method="higher")
            cost = (finish + state.server_seconds) * (1.0 + self.noise_cost * nsr)
        least = int(np.argmin(cost))
        return float(taus[least]), float(cost[least])

    def _budgets(self, columns: Mapping[str, FloatArray], taus: FloatArray) -> FloatArray:
        """Return bytes [client, tau] that arrive in time, at most a factor `step` from the last upload's."""
        spare = np.maximum(taus[None] - columns["busy_seconds"][:, None], 0.0)
        last = columns["nbytes"][:, None]
        return np.clip(spare * columns["rate"][:, None], last / self.step, last * self.step)


def _nmse_at(nmse: FloatArray, nbytes: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the predicted NMSE [client, …] at these sizes, from one payload's size and error."""
    bits = _bits_per_byte(nmse, nbytes)
    bits = np.clip(bits, np.median(bits) / CREDIBLE, np.median(bits) * CREDIBLE)
    with np.errstate(over="ignore"):
        return 1.0 / np.expm1(2.0 * math.log(2.0) * bits[:, None] * sizes)


def _bits_per_byte(nmse: FloatArray, nbytes: FloatArray) -> FloatArray:
    bits: FloatArray = 0.5 * np.log2(1.0 + 1.0 / np.clip(nmse, 1e-9, 1e9)) / nbytes
    return bits


def _plausible(receipt: Receipt) -> bool:
    seconds = (receipt.download_seconds, receipt.compute_seconds, receipt.upload_seconds)
    return (
        all(plausible_seconds(s) for s in seconds)
        and receipt.upload_bytes > 0
        and receipt.examples > 0
        and 0.0 <= receipt.error_energy < math.inf
        and 0.0 < receipt.energy < math.inf
        and receipt.error_energy / receipt.energy < math.inf
    )


def _recorded(state: FitState, receipts: Sequence[Receipt]) -> FitState:
    size = max(state.rate.size, 1 + max(r.client for r in receipts))
    new: dict[str, Any] = {name: np.full(size, np.nan) for name in COLUMNS}
    for name, column in new.items():
        column[: state.rate.size] = getattr(state, name)
    for r in receipts:
        seen = {
            "busy_seconds": r.download_seconds + r.compute_seconds,
            "rate": r.upload_bytes / max(r.upload_seconds, 1e-9),
            "epoch_seconds": r.compute_seconds / state.epochs,
        }
        for name, value in seen.items():
            old = new[name][r.client]
            new[name][r.client] = value if math.isnan(old) else (1 - SMOOTHING) * old + SMOOTHING * value
        new["nbytes"][r.client] = r.upload_bytes
        new["nmse"][r.client] = r.error_energy / r.energy
        new["energy"][r.client] = r.energy
        new["examples"][r.client] = r.examples
        new["levels"][r.client] = r.levels
    return replace(state, **new)


def _signal(energy: float, receipts: Sequence[Receipt]) -> float:
    """Return ||g||^2 less the noise that the quantizers put into it."""
    total = sum(r.examples for r in receipts)
    loudest = LOUD * float(np.median([r.energy for r in receipts]))
    errors = np.array([r.error_energy for r in receipts])
    # The largest credible error of each: more would make the signal seem smaller than it is.
    nmse, nbytes = errors / [r.energy for r in receipts], np.array([float(r.upload_bytes) for r in receipts])
    least_bits = np.median(_bits_per_byte(nmse, nbytes)) / CREDIBLE * nbytes
    with np.errstate(over="ignore", divide="ignore"):
        most = [r.energy for r in receipts] / np.expm1(2.0 * math.log(2.0) * least_bits)
    noise = sum(
        (r.examples / total) ** 2 * float(error) * min(1.0, loudest / r.energy)
        for r, error in zip(receipts, np.minimum(errors, most), strict=True)
    )
    return max(energy - noise, 0.05 * energy)


def _longest(seconds: FloatArray) -> float:
    """Return the limit beyond which a client is an outlier; of two clients neither is.

    >>> _longest(np.array([1.0, 1.0, 1.0, 100.0])), _longest(np.array([1.0, 1.0, 4.0, 4.0, 4.0]))
    (3.0, 12.0)
    """
    return OUTLIER * max(float(np.median(seconds)), float(np.quantile(seconds, 0.9, method="lower")))


def _with_broadcast(state: FitState, sent: Broadcast, receipts: Sequence[Receipt]) -> FitState:
    """Note size and loss of the broadcast, and the slowest client's seconds per byte of its payload.

    Most clients downloaded this payload; one that got the whole model has a larger download at the same rate.
    """
    loaded = [r for r in receipts if r.download_bytes > 0]
    if not (loaded and sent.nbytes > 0 and 0.0 < sent.energy < math.inf and 0.0 <= sent.error_energy <= sent.energy):
        return state
    paces = np.array([r.download_seconds / r.download_bytes for r in loaded])
    slowest = float(paces[paces <= _longest(paces)].max())
    on_link = float(np.median([r.download_bytes for r in loaded]))
    return replace(
        state,
        download_seconds_per_byte=slowest * on_link / sent.nbytes,
        broadcast_bytes=float(sent.nbytes),
        broadcast_nmse=sent.error_energy / sent.energy,
    )


def _filled(state: FitState, cohort: Sequence[int] | NDArray[np.int64]) -> dict[str, FloatArray]:
    """Return the cohort's columns, the median of the others where a client has no history."""
    pick = np.asarray(cohort, np.int64)
    known = state.known
    columns = {}
    for name in COLUMNS:
        column = np.full(max(state.rate.size, int(pick.max(initial=-1)) + 1), np.nan)
        column[: state.rate.size] = np.where(known, getattr(state, name), np.nan)
        columns[name] = np.where(np.isnan(column[pick]), np.nanmedian(column), column[pick])
    known_busy = state.busy_seconds[known]
    busy = columns["busy_seconds"]
    columns["busy_seconds"] = np.where(busy > _longest(known_busy), np.median(known_busy), busy)
    return columns


def _seconds(value: float) -> float:
    return value if plausible_seconds(value) else 0.0


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
