"""What adagq-fit knows: columns over clients, the last broadcast, the signal. Facts come in, a frozen state comes out.

No single client's account moves what is known about the others. Energies count up to LOUD times their median. A
payload's size and error belong together, since all use one codec: who claims bits that are worth CREDIBLE times more or
less than most clients' is taken to be at that limit. Who needs OUTLIER times as long as nine in ten is planned for as a
client of median speed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.control.controller import plausible_seconds, usable_norm
from adagq.core.messages import Broadcast, Facts, Receipt

FloatArray = NDArray[np.float64]
COLUMNS = ("busy_seconds", "rate", "nbytes", "nmse", "energy", "examples", "levels", "epoch_seconds", "spread")
SMOOTHING = 0.3  # of compute times and rates: the weight of the newest
OUTLIER = 3.0  # times the ninth decile of the seconds: such a client is left out of the finishing time
LOUD = 10.0  # times the median of the energies: what one client counts at most
STEADY = 1e-3  # a rate that strays by less is the same: rounding, not the link
SPARSE_GAIN = 0.65  # log D of sparse payloads grows with this power of their bytes (measured on digits: 0.60 to 0.74)
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
    spread: FloatArray  # mean of |log(rate / expected rate)|: how far the uplink's rate strays from round to round
    server_seconds: float = 0.0
    signal: float = math.nan  # ||g||^2 without the quantizers' noise
    download_seconds_per_byte: float = math.nan  # of the slowest client
    broadcast_bytes: float = math.nan
    broadcast_nmse: float = math.nan
    tau: float = math.nan
    epochs: float = 1.0  # of the round that `busy_seconds` and `tau` are for
    reach: float = 3.0  # the factor by which budgets may differ from the last upload's
    least_epochs: float = 1.0  # that nine in ten clients can train: parts of an epoch where it is below 1
    noise_energy: float = 0.0  # that privacy puts into the aggregate, whatever is sent

    @property
    def known(self) -> NDArray[np.bool_]:
        return np.isfinite(self.busy_seconds) & np.isfinite(self.rate) & np.isfinite(self.nmse)

    def to_json(self) -> dict[str, Any]:
        """Return the columns of the clients that were met, and the rest."""
        met = np.flatnonzero(~np.isnan(self.examples))
        columns = {name: [_plain(v) for v in getattr(self, name)[met].tolist()] for name in COLUMNS}
        rest = {name: _plain(getattr(self, name)) for name in self.__slots__ if name not in COLUMNS}
        return {"clients": int(self.rate.size), "met": met.tolist()} | columns | rest


def unknown(clients: int) -> FitState:
    """Return the state before the first round."""
    columns: dict[str, Any] = {name: np.full(clients, np.nan) for name in COLUMNS}
    return FitState(**columns)


def from_json(data: Mapping[str, Any]) -> FitState:
    """Invert `FitState.to_json`; columns without `met` are of all clients, as they were before."""
    met = data.get("met", range(len(data["rate"])))
    state = unknown(data.get("clients", len(met)))
    for name in COLUMNS:
        if name in data:  # a checkpoint may be older than a column
            getattr(state, name)[list(met)] = [_number(v) for v in data[name]]
    rest: dict[str, Any] = {
        name: _number(data[name]) for name in FitState.__slots__ if name not in COLUMNS and name in data
    }
    return replace(state, **rest)


def learn(state: FitState, facts: Facts) -> FitState:
    """Return the state after a round; the same object if there was nothing to learn from."""
    receipts = [r for r in facts.receipts if _plausible(r)]
    if not receipts:
        return state
    state = _recorded(state, receipts)
    least = float(np.quantile([r.least_epochs for r in receipts], 0.9, method="lower"))
    state = replace(state, server_seconds=_seconds(facts.server_seconds), least_epochs=least)
    if usable_norm(facts.norm) and usable_norm(squared := facts.norm * facts.norm):
        state = replace(state, signal=_signal(squared, receipts, facts.noise_energy), noise_energy=facts.noise_energy)
    return _with_broadcast(state, facts.broadcast, receipts)


def filled(state: FitState, cohort: Sequence[int] | NDArray[np.int64]) -> dict[str, FloatArray]:
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


def nmse_at(nmse: FloatArray, nbytes: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the predicted NMSE [client, …] at these sizes, from one payload's size and error."""
    bits = _bits_per_byte(nmse, nbytes)
    bits = np.clip(bits, np.median(bits) / CREDIBLE, np.median(bits) * CREDIBLE)
    with np.errstate(over="ignore"):
        return 1.0 / np.expm1(2.0 * math.log(2.0) * bits[:, None] * sizes)


def late_at(lost: FloatArray, nbytes: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return by how many rounds the updates [client, …] come late at these sizes, from what one payload left behind.

    A sparse code with feedback that leaves the share D of the energy for later delays it by D / (1 - D) rounds.
    """
    shares = left_at(lost, nbytes, sizes)
    return shares / (1.0 - shares)


def left_at(lost: FloatArray, nbytes: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the share D of the energy [client, …] that sparse payloads of these sizes leave behind, from one's.

    It falls more slowly than with a dense code: the largest entries go first.
    """
    shares: FloatArray = np.clip(lost, 1e-9, 0.98)[:, None] ** ((sizes / nbytes[:, None]) ** SPARSE_GAIN)
    return shares


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
        new["spread"][r.client] = _strayed(new["spread"][r.client], seen["rate"], new["rate"][r.client])
        for name, value in seen.items():
            old = new[name][r.client]
            new[name][r.client] = value if math.isnan(old) else (1 - SMOOTHING) * old + SMOOTHING * value
        new["nbytes"][r.client] = r.upload_bytes
        new["nmse"][r.client] = r.error_energy / r.energy
        new["energy"][r.client] = r.energy
        new["examples"][r.client] = r.examples
        new["levels"][r.client] = r.levels
    return replace(state, **new)


def _strayed(spread: float, rate: float, expected: float) -> float:
    """Return the mean distance of a rate from what was expected, after one more; 0 at first."""
    if math.isnan(expected):
        return 0.0
    distance = abs(math.log(rate / expected))
    known = 0.0 if math.isnan(spread) else spread
    return (1 - SMOOTHING) * known + SMOOTHING * (distance if distance > STEADY else 0.0)


def _signal(energy: float, receipts: Sequence[Receipt], noise_energy: float = 0.0) -> float:
    """Return ||g||^2 less the noise that the quantizers and privacy put into it."""
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
    return max(energy - noise - noise_energy, 0.05 * energy)


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


def _seconds(value: float) -> float:
    return value if plausible_seconds(value) else 0.0


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
