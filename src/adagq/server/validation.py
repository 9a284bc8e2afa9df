"""Checks every message before anything of it is used; backends may hand over anything.

A report or an update that was not asked for, comes twice, belongs to another round or model, is longer than its codec
makes them or holds something impossible is refused: it is as if it had never come, and an `Incident` says why. A number
that is merely not to be believed (a loss, seconds) is left out or cut to size, and the rest is used: "clamped".
Payloads are checked by the decoder (`intake`). Whatever an odd message raises here is that client's refusal.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

from adagq.control.controller import plausible_loss, plausible_seconds
from adagq.control.history import plausible_curve
from adagq.core.codec import MAX_LEVELS, levels_of
from adagq.core.messages import Incident, IncidentKind, Receipt, Report, Settlement, Sync, Task, Update
from adagq.core.vectors import Layout

LOSSES = ("loss_before", "loss_after", "loss_probe")
SECONDS = ("download_seconds", "compute_seconds", "upload_seconds")
# Nobody is busy for longer than the round lasted, or idle without a reason; clocks and estimates may be off by this.
BUSY_FACTOR, BUSY_SECONDS = 1.1, 1.0
LONGEST_REASON = 500
FLAGS = ("True", "False")  # Python's booleans are integers: not here


class Validator:
    """What one attempt at a round asked for, and what was wrong with what came."""

    def __init__(self, round: int, layout: Layout) -> None:
        self.incidents: list[Incident] = []
        self.reports: dict[int, Report] = {}
        self._round = round
        self._layout = layout
        self._syncs: dict[int, Sync] = {}
        self._tasks: dict[int, Task] = {}
        self._heard: set[int] = set()  # whose update came, whatever became of it

    def posted(self, sync: Sync | None, task: Task | None) -> None:
        """Note what a client was asked for."""
        if sync is not None:
            self._syncs[sync.client] = sync
        if task is not None:
            self._tasks[task.client] = task

    def report(self, sender: int, report: Report) -> Report | None:
        """Return the report as it may be used, None if not at all; `sender` is the client that the backend knows."""
        try:
            if reason := _foreign(sender, report, self._round) or self._wrong_report(report):
                self.refuse(sender, reason)
                return None
            report = self._believed(report)
        except Exception as error:
            self.refuse(sender, f"a malformed report ({type(error).__name__}: {error})")
            return None
        self.reports[sender] = report
        return report

    def update(self, sender: int, update: Update) -> Update | None:
        """Return the update as it may be decoded, None if not at all; `sender` is the client that the backend knows."""
        try:
            reason = _foreign(sender, update, self._round) or self._wrong_update(update)
        except Exception as error:
            reason = f"a malformed update ({type(error).__name__}: {error})"
        self._heard.add(sender)
        if reason:
            self.refuse(sender, reason)
            return None
        return update

    def refuse(self, client: int, reason: str) -> None:
        """Note something that is not used."""
        self.note(client, "refused", reason)

    def clamp(self, client: int, reason: str) -> None:
        """Note something that is used, but for a number in it."""
        self.note(client, "clamped", reason)

    def note(self, client: int, kind: IncidentKind, reason: str) -> None:
        self.incidents.append(Incident(client, self._round, kind, printable(reason)))

    def settle(
        self, settlement: Settlement, accepted: Mapping[int, int], idle_seconds: float = math.nan
    ) -> tuple[tuple[Receipt, ...], tuple[Receipt, ...]]:
        """Return the receipts of accepted updates: for the books, and those that a controller may learn from.

        `accepted` has the examples that count, by client. Seconds that cannot be are cut to the round's in the books,
        and kept from the controller. Nobody waits for a decision longer than `idle_seconds`: the rest of the time until
        an update arrived its client was busy.
        """
        booked: dict[int, Receipt] = {}
        trusted: list[Receipt] = []
        for receipt in settlement.receipts:
            examples = accepted.get(receipt.client)
            if examples is None or receipt.client in booked:
                continue
            asked = self._tasks.get(receipt.client)  # without a barrier the loop knows
            receipt = replace(receipt, examples=examples, epochs=asked.epochs if asked else receipt.epochs)
            if reason := _impossible(receipt, settlement.round_seconds, idle_seconds):
                self.clamp(receipt.client, reason)
                receipt = _cut(receipt, settlement.round_seconds - settlement.server_seconds)
            else:
                trusted.append(receipt)
            booked[receipt.client] = receipt
        return tuple(booked.values()), tuple(trusted)

    def _wrong_report(self, report: Report) -> str | None:
        if report.client not in self._syncs:
            return "a report that was not asked for"
        if report.client in self.reports:
            return "a second report"
        return None if _whole(report.examples, 1) else f"a report with {report.examples!r} examples"

    def _believed(self, report: Report) -> Report:
        """Return the report without losses that were not asked for or cannot be believed."""
        asked = LOSSES if self._syncs[report.client].probing else ()
        given = {name: getattr(report, name) for name in asked}
        if absurd := [f"{name} = {loss!r}" for name, loss in given.items() if not _real(loss, plausible_loss)]:
            self.clamp(report.client, f"losses left out: {', '.join(absurd)}")
            asked = ()
        blank: dict[str, Any] = {name: math.nan for name in LOSSES if name not in asked}
        return replace(report, **blank)

    def _wrong_update(self, update: Update) -> str | None:
        task, report = self._tasks.get(update.client), self.reports.get(update.client)
        if task is None or report is None:
            return "an update that was not asked for"
        if update.client in self._heard:
            return "a second update"
        if not _is(update.examples, report.examples):
            return f"{update.examples!r} examples, its report said {report.examples}"
        if not _is(update.version, version := self._syncs[update.client].version):
            return f"an update of model version {update.version!r}, asked for was {version}"
        return self._wrong_numbers(update, task) or self._wrong_payload(update, task)

    def _wrong_numbers(self, update: Update, task: Task) -> str | None:
        if not _whole(update.levels, 0) or update.levels > MAX_LEVELS:
            return f"levels = {update.levels!r}, allowed are 0 … {MAX_LEVELS}"
        if not task.fitted and update.levels != (asked := levels_of(task.codec)):
            return f"levels = {update.levels}, asked for were {asked}"
        for name in ("energy", "error_energy"):
            if not _real(getattr(update, name), lambda value: 0.0 <= value < math.inf):
                return f"{name} = {getattr(update, name)!r}"
        if not isinstance(update.rate_bits, tuple) or (update.rate_bits and not plausible_curve(update.rate_bits)):
            return "a rate curve that is not 16 positive numbers"
        if not _real(update.least_epochs, lambda value: 0.0 < value <= 1.0):
            return f"least_epochs = {update.least_epochs!r}"
        known = _real(update.train_loss, lambda loss: not math.isinf(loss))
        return None if known else f"train_loss = {update.train_loss!r}"

    def _wrong_payload(self, update: Update, task: Task) -> str | None:
        payloads: tuple[Any, ...] = (update.payload, update.buffers)
        if not all(isinstance(payload, bytes) for payload in payloads):
            return "a payload that is not bytes"
        most = task.codec.max_bytes(self._layout.elements, self._layout)
        if len(update.payload) > most:
            return f"a payload of {len(update.payload)} bytes, at most {most} are allowed"
        return task.codec.mismatch(update.payload, fitted=task.fitted) or None


def _foreign(sender: int, message: Report | Update, round: int) -> str | None:
    """Return why this is not the sender's own message of this round: nobody speaks for another client."""
    what = "a report" if isinstance(message, Report) else "an update"
    if not _is(message.client, sender):
        return f"{what} in the name of client {message.client!r}"
    return None if _is(message.round, round) else f"{what} of round {message.round!r}"


def printable(text: str) -> str:
    """Return text for a log: one line, no control characters, not too long."""
    line = " ".join(str(text).split())
    return _visible(line)[:LONGEST_REASON]


def printable_lines(text: str) -> str:
    """Return text of several lines, such as a traceback, without other control characters.

    >>> printable_lines("one\\n  two\\x1b[2J")
    'one\\n  two�[2J'
    """
    return "\n".join(map(_visible, text.splitlines()))


def _visible(line: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in line)


def _impossible(receipt: Receipt, round_seconds: float, idle_seconds: float) -> str | None:
    parts = {name: getattr(receipt, name) for name in SECONDS}
    if absurd := [f"{name} = {seconds!r}" for name, seconds in parts.items() if not _real(seconds, plausible_seconds)]:
        return ", ".join(absurd)
    if (busy := receipt.busy_seconds) > BUSY_FACTOR * round_seconds + BUSY_SECONDS:
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
        cut[name] = min(max(value, 0.0), left) if _real(value, math.isfinite) else 0.0
        left -= cut[name]
    return replace(receipt, **cut, waiting_seconds=left)


def _whole(value: Any, least: int) -> bool:
    """Whether a client's field is a whole number; what comes from the network need not have its annotated type."""
    return str(value) not in FLAGS and isinstance(value, Integral) and int(value) >= least


def _is(value: Any, expected: int) -> bool:
    return _whole(value, 0) and int(value) == expected


def _real(value: Any, allowed: Callable[[float], bool]) -> bool:
    return str(value) not in FLAGS and isinstance(value, Real) and allowed(float(value))
