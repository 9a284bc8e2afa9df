"""Nothing that arrives is used before it is looked at here; backends may hand over anything.

A report or an update that was not asked for, comes twice, belongs to another round or holds something impossible is
refused: it is as if it had never come, and an `Incident` says why. A number that is merely not to be believed (a
loss, the examples, seconds) is left out or cut to size, and the rest is used: "clamped". Payloads are checked by the
decoder; what is left to check here is that it is the codec that was asked for.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from statistics import median
from typing import Any

import numpy as np

from adagq.codecs import MAX_LEVELS, Codec
from adagq.codecs.wire import HEADER
from adagq.control.controller import plausible_loss, plausible_seconds
from adagq.control.history import plausible_curve
from adagq.messages import Closing, Incident, IncidentKind, Receipt, Report, Sync, Task, Update

LOSSES = ("loss_before", "loss_after", "loss_probe", "loss_noisy")
SECONDS = ("download_seconds", "compute_seconds", "upload_seconds")
# Nobody is busy for longer than the round lasted, or idle without a reason; clocks and estimates may be off by this.
BUSY_FACTOR, BUSY_SECONDS = 1.1, 1.0
Receipts = tuple[Receipt, ...]
_TAGS: dict[type[Codec], int] = {}


class Screen:
    """What one attempt at a round asked for, and what was wrong with what came."""

    def __init__(self, round: int, syncs: Iterable[Sync], weight_bound: float = math.inf) -> None:
        self.incidents: list[Incident] = []
        self.norms: list[float] = []  # of accepted updates
        self._round = round
        self._syncs = {sync.client: sync for sync in syncs}
        self._tasks: Mapping[int, Task] = {}
        self._reports: dict[int, Report] = {}
        self._heard: set[int] = set()  # whose update came, whatever became of it
        self._accepted: dict[int, int] = {}  # client -> examples; payloads are not kept
        self._weight_bound = weight_bound
        self._most_examples = math.inf

    def report(self, report: Report) -> Report | None:
        """Return the report as it may be used, None if not at all."""
        if reason := self._wrong_report(report):
            self.refuse(report.client, reason)
            return None
        asked = _asked(self._syncs[report.client])
        given = {name: getattr(report, name) for name in asked}
        if absurd := [f"{name} = {loss:g}" for name, loss in given.items() if not plausible_loss(loss)]:
            self._note(report.client, "clamped", f"losses left out: {', '.join(absurd)}")
            asked = ()
        if unasked := [name for name in LOSSES if name not in asked and not math.isnan(getattr(report, name))]:
            blank: dict[str, Any] = dict.fromkeys(unasked, math.nan)
            report = replace(report, **blank)
        self._reports[report.client] = report
        return report

    def expect(self, tasks: Iterable[Task], examples: Sequence[int]) -> None:
        """Say what is asked for now; `examples` are those of this round's or the last one's clients."""
        self._tasks = {task.client: task for task in tasks}
        if examples:
            self._most_examples = self._weight_bound * median(examples)

    def update(self, update: Update) -> Update | None:
        """Return the update as it may be decoded, None if not at all."""
        client = update.client
        reason = self._wrong_update(update)
        self._heard.add(client)
        if reason:
            self.refuse(client, reason)
            return None
        if update.examples > self._most_examples:
            most = max(int(self._most_examples), 1)
            self._note(client, "clamped", f"{update.examples} examples count as {most}")
            update = replace(update, examples=most)
        return update

    def accept(self, update: Update, norm: float = math.nan) -> None:
        """Note that the update was added up; its norm where it was looked at."""
        self._accepted[update.client] = update.examples
        if not math.isnan(norm):
            self.norms.append(norm)

    def refuse(self, client: int, reason: str) -> None:
        """Note something that is not used."""
        self._note(client, "refused", reason)

    def close(
        self, closing: Closing, idle_seconds: float = math.nan
    ) -> tuple[tuple[Receipt, ...], tuple[Receipt, ...]]:
        """Return the receipts of accepted updates: for the books, and those that a controller may learn from.

        Seconds that cannot be are cut to the round's in the books, and kept from the controller. Nobody waits for a
        decision longer than `idle_seconds`: the rest of the time until an update arrived its client was busy.
        """
        self.incidents.extend(incident for incident in closing.incidents if incident.round == self._round)
        booked: dict[int, Receipt] = {}
        trusted: list[Receipt] = []
        for receipt in closing.receipts:
            examples = self._accepted.get(receipt.client)
            if examples is None or receipt.client in booked:
                continue
            if receipt.examples != examples:
                receipt = replace(receipt, examples=examples)
            if reason := _impossible(receipt, closing.round_seconds, idle_seconds):
                self._note(receipt.client, "clamped", reason)
                receipt = _cut(receipt, closing.round_seconds - closing.server_seconds)
            else:
                trusted.append(receipt)
            booked[receipt.client] = receipt
        return tuple(booked.values()), tuple(trusted)

    def _wrong_report(self, report: Report) -> str | None:
        if report.client not in self._syncs:
            return "a report that was not asked for"
        if report.round != self._round:
            return f"a report of round {report.round}"
        if report.client in self._reports:
            return "a second report"
        return None if _whole(report.examples, 1) else f"a report with {report.examples!r} examples"

    def _wrong_update(self, update: Update) -> str | None:
        task, told = self._tasks.get(update.client), self._reports.get(update.client)
        if task is None or told is None:
            return "an update that was not asked for"
        if update.round != self._round:
            return f"an update of round {update.round}"
        if update.client in self._heard:
            return "a second update"
        if update.examples != told.examples:
            return f"{update.examples!r} examples, its report said {told.examples}"
        if not _whole(update.levels, 0) or update.levels > MAX_LEVELS:
            return f"levels = {update.levels!r}, allowed are 0 … {MAX_LEVELS}"
        if task.budget_bytes is None and update.levels != (asked := getattr(task.codec, "levels", 0)):
            return f"levels = {update.levels}, asked for were {asked}"
        for name in ("energy", "error_energy"):
            if not 0.0 <= getattr(update, name) < math.inf:
                return f"{name} = {getattr(update, name)!r}"
        if update.rate_bits and not plausible_curve(update.rate_bits):
            return "a rate curve that is not 16 positive numbers"
        if len(update.payload) >= HEADER.size and _tag(update.payload) != self._tag_of(task.codec):
            return f"a payload with codec tag {_tag(update.payload)}, asked for was {self._tag_of(task.codec)}"
        return None

    def _tag_of(self, codec: Codec) -> int:
        """Return the tag of this codec's payloads, as found by encoding something."""
        if type(codec) not in _TAGS:
            _TAGS[type(codec)] = _tag(codec.encode(np.ones(1, np.float32), layout=(1,)))
        return _TAGS[type(codec)]

    def _note(self, client: int, kind: IncidentKind, reason: str) -> None:
        self.incidents.append(Incident(client, self._round, kind, reason))


def _asked(sync: Sync) -> tuple[str, ...]:
    """Return the losses that this sync asks for."""
    if not sync.probing:
        return ()
    probed = ("loss_probe",) if sync.probe_levels is not None else ()
    noisy = ("loss_noisy",) if sync.probe_noise > 0 else ()
    return ("loss_before", "loss_after", *probed, *noisy)


def _impossible(receipt: Receipt, round_seconds: float, idle_seconds: float) -> str | None:
    parts = {name: getattr(receipt, name) for name in SECONDS}
    if absurd := [f"{name} = {seconds:g}" for name, seconds in parts.items() if not plausible_seconds(seconds)]:
        return ", ".join(absurd)
    if (busy := sum(parts.values())) > BUSY_FACTOR * round_seconds + BUSY_SECONDS:
        return f"busy for {busy:.4g} s in a round of {round_seconds:.4g} s"
    if receipt.arrival_seconds - busy > BUSY_FACTOR * idle_seconds + BUSY_SECONDS:  # not if one of them is NaN
        return f"busy for {busy:.4g} s of the {receipt.arrival_seconds:.4g} s until its update arrived"
    return None


def _cut(receipt: Receipt, seconds: float) -> Receipt:
    """Return the receipt with parts that add up to at most `seconds`."""
    left = max(seconds, 0.0)
    cut: dict[str, Any] = {}
    for name in SECONDS:
        value = getattr(receipt, name)
        cut[name] = min(max(value, 0.0), left) if math.isfinite(value) else 0.0
        left -= cut[name]
    return replace(receipt, **cut, waiting_seconds=left)


def _whole(value: object, least: int) -> bool:
    return isinstance(value, Integral) and int(value) >= least


def _tag(payload: bytes) -> int:
    return int(HEADER.unpack_from(payload)[2])
