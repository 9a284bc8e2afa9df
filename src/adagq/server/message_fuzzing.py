"""Malformed reports and updates through the validator and the intake: each is that client's refusal, or harmless.

Every message meets a round of its own with honest clients in it. Fields are given values of other types and sizes,
messages take each other's place, payloads are damaged as `adagq fuzz` damages them. What must hold, whatever came: no
exception, the honest clients count, the mean is finite and as near to theirs as the bounds promise, and what is written
down is one line of printable text. A transport gives its own `carry`: what it makes of a message on its way (Flower's
records); without one messages are handed over as they are.
"""

import random
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from adagq.codecs import QSGD, Codec, Float32, TopK
from adagq.codecs.mutations import MUTATIONS
from adagq.core.errors import PayloadError
from adagq.core.messages import Report, Sync, Task, Update
from adagq.core.seeds import derive, generator
from adagq.core.vectors import Layout
from adagq.server.intake import Bounds, Intake, Usual
from adagq.server.robust import AGGREGATES
from adagq.server.validation import LONGEST_REASON, Validator

HONEST, LIAR, ROUND, VERSION, EXAMPLES = (0, 1, 2), 3, 4, 3, 100
BOUNDS: Final = Bounds(norm=5.0, examples=10.0)
FARTHEST: Final = (3 * 2 + 10 * 5) / 13  # three honest clients, one of 5 times their norm and 10 times their examples
MOST_FAILURES: Final = 20
LAYOUT: Final = Layout.of(
    {
        "weight": np.zeros((6, 10), np.float32),
        "bn.running_mean": np.zeros(3, np.float32),
        "bn.running_var": np.zeros(3, np.float32),
    }
)
CODECS: Final[tuple[Codec, ...]] = (
    Float32(),
    QSGD(levels=15, granularity="tensor", norm="l2", rounding="dither", packing="entropy"),
    QSGD(levels=255, granularity="tensor", norm="max", packing="fixed"),
    TopK(fraction=0.2),
)
ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 3, 4, 2**31, 2**63, -(2**63), 10**400, 0.0, -0.0, 0.5, 1e-320, 1e15, 1e38, 1e308,
    float("nan"), float("inf"), float("-inf"), "", "7", "nan", "\x1b[31m\r\n", "x" * 10_000, b"", b"\x00" * 40, [],
    [1.0], [True], ["a"], (), (1.0,), (float("nan"),) * 16, (1.0,) * 16, (-1.0,) * 16, tuple(range(16)), {}, {"a": 1},
    1j, np.float32(3.0), np.int64(100), np.array([1.0]), np.array(5), bytearray(b"payload"), memoryview(b"payload"),
)  # fmt: skip
Carry = Callable[[Any, random.Random], Any]  # a message and what draws the damage -> what arrives


@dataclass
class MessageReport:
    """What came of the messages."""

    messages: int
    accepted: Counter[str] = field(default_factory=Counter)  # by what was done to the message
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    failed: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        kinds = sorted(self.accepted.keys() | self.refused.keys())
        lines = [f"{kind:30}{f'{self.accepted[kind]} / {self.refused[kind]}':>16}" for kind in kinds]
        total = (
            f"{self.messages:,} messages in {self.seconds:.1f} s: {self.accepted.total():,} accepted, "
            f"{self.refused.total():,} refused, {self.failed:,} failed"
        )
        return "\n".join([f"{'accepted / refused':>46}", *lines, total, *self.failures])


class MessageFuzzError(AssertionError):
    """A malformed message did something else than to be refused or to be harmless."""


def run(
    messages: int, seed: int = 0, carry: Carry | None = None, progress: Callable[[str], None] | None = print
) -> MessageReport:
    """Send that many malformed messages; the report goes to `progress`, a failure is raised."""
    report = survey(messages, seed, carry)
    if progress is not None:
        progress(str(report))
    if report.failed:
        raise MessageFuzzError(f"{report.failed} of {messages} messages failed; the first: {report.failures[0]}")
    return report


def survey(messages: int, seed: int = 0, carry: Carry | None = None) -> MessageReport:
    """Send that many malformed messages; failures are collected, not raised."""
    rng = random.Random(derive(seed, "messages"))
    rounds = [_Honest(codec) for codec in CODECS]
    report = MessageReport(messages)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(messages):
            honest, aggregate = rng.choice(rounds), rng.choice(list(AGGREGATES))
            what, said, sent = _malformed(honest, rng)
            try:
                used, wrong = _play(honest, aggregate, *_carried(said, sent, carry, rng))
            except Exception as error:
                used, wrong = False, f"raised {type(error).__name__}: {error}"
            (report.accepted if used else report.refused)[what] += 1
            if wrong:
                report.failed += 1
                if len(report.failures) < MOST_FAILURES:
                    report.failures.append(f"{what}, {aggregate}: {wrong}; {said!r:.300} {sent!r:.300}")
    report.seconds = time.perf_counter() - begin
    return report


class _Honest:
    """What honest clients send with one codec, and what their mean is."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.updates = [self._update(client) for client in (*HONEST, LIAR)]

    def _update(self, client: int) -> Update:
        vector = generator(8, "update", client).standard_normal(LAYOUT.elements)
        vector = (vector / np.linalg.norm(vector)).astype(np.float32)
        buffers = generator(8, "buffers", client).uniform(0.5, 1.5, LAYOUT.buffer_elements).astype(np.float32)
        payload = self.codec.encode(vector, client, LAYOUT)
        levels = getattr(self.codec, "levels", 0)
        curve = tuple(float(value) for value in self.codec.rate_curve(vector, LAYOUT))
        encoded = Float32().encode(buffers)
        return Update(client, ROUND, EXAMPLES, payload, encoded, levels, 1.0, 0.1, curve, 0.5, VERSION)


def _malformed(honest: _Honest, rng: random.Random) -> tuple[str, Any, Any]:
    """Return what was done, and the liar's report and update after it."""
    report: Any = Report(LIAR, ROUND, EXAMPLES, 1.0, 0.9, 0.8)
    update: Any = honest.updates[-1]
    kind = rng.randrange(10)
    if kind < 3:
        name = rng.choice([one.name for one in fields(Report)])
        return f"report.{name}", replace(report, **{name: rng.choice(ODD)}), update
    if kind < 6:
        name = rng.choice([one.name for one in fields(Update)])
        return f"update.{name}", report, replace(update, **{name: rng.choice(ODD)})
    if kind < 8:
        mutation, part = rng.choice(list(MUTATIONS)), rng.choice(["payload", "buffers"])
        other = rng.choice(honest.updates).payload
        damaged = MUTATIONS[mutation](getattr(update, part), other, rng)
        return f"{part}: {mutation}", report, replace(update, **{part: damaged})
    if kind == 8:
        names = rng.sample([one.name for one in fields(Update)], rng.randint(2, 6))
        return "several fields", report, replace(update, **{name: rng.choice(ODD) for name in names})
    odd = rng.choice([*ODD, report, update, object()])
    return ("no report", odd, update) if rng.random() < 0.5 else ("no update", report, odd)


def _carried(said: Any, sent: Any, carry: Carry | None, rng: random.Random) -> tuple[Any, Any]:
    """Return what arrives; None for a message that the transport refused."""
    if carry is None:
        return said, sent
    arrived: list[Any] = []
    for message in (said, sent):
        try:
            arrived.append(carry(message, rng))
        except PayloadError:
            arrived.append(None)
    return arrived[0], arrived[1]


def _play(honest: _Honest, aggregate: str, said: Any, sent: Any) -> tuple[bool, str]:
    """Return whether the liar's update counts, and what is wrong, if anything."""
    validator = Validator(ROUND, LAYOUT)
    usual = Usual((1.0,) * 10, (EXAMPLES,) * 10)
    clients = (*HONEST, LIAR)
    intake = Intake(LAYOUT, clients, usual, BOUNDS, validator.refuse, validator.clamp, aggregate)
    for client in clients:
        probe = (honest.codec, honest.codec)
        sync = Sync(client, ROUND, VERSION, VERSION - 1, (b"aggregate",), b"", probe=probe)
        validator.posted(sync, Task(client, ROUND, honest.codec, 1, 0.1, 0))
    messages = [(client, Report(client, ROUND, EXAMPLES, 1.0, 0.9, 0.8), honest.updates[client]) for client in HONEST]
    for client, report, update in [*messages, (LIAR, said, sent)]:
        usable = validator.report(client, report)
        checked = validator.update(client, update) if usable is not None else None
        if checked is None:
            intake.missing(client)
        else:
            intake.put(checked)
    closed = intake.close()
    used = LIAR in intake.accepted
    if closed is None or not set(HONEST) <= intake.accepted.keys():
        return used, "honest clients do not count"
    mean, buffers = closed
    if not (np.isfinite(mean).all() and np.isfinite(buffers).all() and (buffers[LAYOUT.variances] >= 0).all()):
        return used, "a mean that cannot be"
    if float(np.linalg.norm(mean)) > FARTHEST:
        return used, f"a mean of norm {float(np.linalg.norm(mean)):.3g}, at most {FARTHEST:.3g} is allowed"
    for incident in validator.incidents:
        if incident.client != LIAR and "buffers far" not in incident.reason:
            return used, f"an honest client has an incident: {incident.reason}"
        if len(incident.reason) > LONGEST_REASON or not incident.reason.isprintable():
            return used, f"a reason that is no line of text: {incident.reason!r:.80}"
    return used, ""
