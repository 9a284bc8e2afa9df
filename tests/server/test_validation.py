"""One liar of twenty: refused or cut to size, named, and nobody else's levels move by more than a bit."""

import functools
import logging
import math
from dataclasses import replace

import numpy as np
import pytest

from adagq.codecs import QSGD, Float16, Float32
from adagq.core.messages import Receipt, Report, Settlement, Sync, Task, Update
from adagq.core.seeds import generator
from adagq.core.vectors import Layout
from adagq.methods.table import method_of
from adagq.server.validation import Validator
from hostile import LAYOUT, LIAR, SCHEDULE, Lie, run

NAN, INF = math.nan, math.inf
ROUNDS = 6
TIMES = ("download_seconds", "compute_seconds", "upload_seconds")


def times(change) -> Lie:
    return Lie(receipt=lambda r: replace(r, **{name: change(getattr(r, name)) for name in TIMES}))


def losses(value: float) -> Lie:
    def claimed(report: Report):
        names = ("loss_before", "loss_after", "loss_probe")
        asked = {name: value for name in names if not math.isnan(getattr(report, name))}
        return [replace(report, **asked)]

    return Lie(report=claimed)


def saying(**changes) -> Lie:
    """Fields of the update: a number, or a function of the honest one."""

    def claimed(update: Update):
        new = {name: change(getattr(update, name)) if callable(change) else change for name, change in changes.items()}
        return [replace(update, **new)]

    return Lie(update=claimed)


def floats(update: Update, value: float) -> bytes:
    """A frame that is right in all but its numbers."""
    payload = bytearray(Float32().encode(np.zeros(LAYOUT.elements, np.float32)))
    payload[-4:] = np.float32(value).tobytes()
    return bytes(payload)


REFUSED = {
    "negative levels": saying(levels=-5),
    "levels 1e9": saying(levels=10**9),
    "few levels": saying(levels=1),
    "many levels": saying(levels=65535),
    "error energy NaN": saying(error_energy=NAN),
    "energy infinite": saying(energy=INF),
    "parts of an epoch below zero": saying(least_epochs=-0.5),
    "parts of an epoch NaN": saying(least_epochs=NAN),
    "rate curve too short": saying(rate_bits=(1.0, 2.0)),
    "rate curve with a zero": saying(rate_bits=(0.0,) * 16),
    "examples unlike its report's": saying(examples=lambda n: 10**6 * n),
    "no examples": saying(examples=0),
    "payload of another size": saying(payload=QSGD(granularity="vector").encode(np.ones(7, np.float32))),
    "payload of another codec": saying(payload=Float16().encode(np.ones(LAYOUT.elements, np.float32))),
    "payload of another version": saying(payload=lambda p: p[:3] + b"\x09" + p[4:]),
    "payload cut short": saying(payload=lambda p: p[:-5]),
    "payload of nothing": saying(payload=b""),
    "payload of random bytes": saying(payload=generator(1, "garbage").bytes(500)),
    "payload with a flipped bit": saying(payload=lambda p: p[:-1] + bytes(byte ^ 1 for byte in p[-1:])),
    "NaN in the buffers": saying(buffers=lambda b: b[:-4] + np.float32(np.nan).tobytes()),
    "buffers of another size": saying(buffers=Float32().encode(np.ones(99, np.float32))),
    "no buffers": saying(buffers=b""),
    "a variance below zero": saying(buffers=Float32().encode(np.array([1, 1, 1, 1, -5], np.float32))),
    "another round's": saying(round=99),
    "another model version's": saying(version=99),
    "another client's id": saying(client=4711),
    "a client's id that is there": saying(client=3),
    "everything twice": Lie(update=lambda u: [u, u]),
    "a report twice": Lie(report=lambda r: [r, r]),
    "a report of another round": Lie(report=lambda r: [replace(r, round=99)]),
    "a report of someone unknown": Lie(report=lambda r: [replace(r, client=-1)]),
    "a report without examples": Lie(report=lambda r: [replace(r, examples=-3)]),
}
CLAMPED = {
    "no time at all": times(lambda s: 0.0),
    "times x2.9": times(lambda s: 2.9 * s),
    "times x100": times(lambda s: 100 * s),
    "times 1e9": times(lambda s: 1e9),
    "times -1": times(lambda s: -1.0),
    "times NaN": times(lambda s: NAN),
    "examples x1e6": Lie(
        report=lambda r: [replace(r, examples=10**6 * r.examples)],
        update=lambda u: [replace(u, examples=10**6 * u.examples)],
    ),
}
LOSSES = {f"losses {value:g}": losses(value) for value in (NAN, INF, 1e30, -1e30)}
BELIEVED = {
    "error energy x1e6": saying(error_energy=lambda e: 1e6 * e),
    "error energy 0": saying(error_energy=0.0),
    "energies 1e38": saying(energy=1e38, error_energy=1e38),
    "energy tiny": saying(energy=1e-30),
    "parts of an epoch, tiny": saying(least_epochs=1e-9),
    "rate curve flat": saying(rate_bits=lambda bits: bits and (1.0,) * 16),
    "rate curve 1e30": saying(rate_bits=lambda bits: bits and tuple(1e30 * b for b in bits)),
    "rate curve steep": saying(rate_bits=lambda bits: bits and tuple(1e3**b for b in range(1, 17))),
}
LIES = {**REFUSED, **CLAMPED, **LOSSES, **BELIEVED}


@functools.cache
def honest(name: str):
    return run(name, Lie(), ROUNDS)


def asked_of_the_others(name: str, closed) -> np.ndarray:
    """Bits of the levels (adagq) or bits of the bytes (adagq-fit) of every honest client in every round."""
    levels = name != "adagq-fit"
    what = "levels" if levels else "upload_bytes"
    return np.array(
        [[math.log2(line[what] + levels) for line in one.ledger if line["client"] != LIAR] for one in closed]
    )


@pytest.mark.parametrize("name", ["adagq", "adagq-vote", "adagq-fit"])
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_one_liar_of_twenty_moves_nobody_else_by_more_than_a_bit(name: str, lie: Lie) -> None:
    lied = run(name, lie, ROUNDS)
    moved = np.abs(asked_of_the_others(name, lied) - asked_of_the_others(name, honest(name)))
    assert moved.max() <= 1.0 + 1e-9
    assert all(math.isfinite(one.row["norm"]) and one.row["accuracy"] is not None for one in lied)


@pytest.mark.parametrize("lie", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_refused_counted_and_named(lie: Lie) -> None:
    for one in run("adagq", lie, 2):
        assert one.row["refused"] == 1
        (incident,) = [line for line in one.incidents if line["kind"] == "refused"]
        assert incident["reason"]
        assert (incident["method"], incident["seed"], incident["round"]) == ("adagq", 5, one.row["round"])
        assert incident["client"] == LIAR


@pytest.mark.parametrize("lie", CLAMPED.values(), ids=CLAMPED)
def test_what_cannot_be_believed_is_cut_to_size_and_named(lie: Lie) -> None:
    for one in run("adagq", lie, 2):
        assert (one.row["clients"], one.row["refused"], one.row["failed"]) == (20, 0, 0)
        assert {line["client"] for line in one.incidents if line["kind"] == "clamped"} == {LIAR}
        for line in one.ledger:
            parts = [line[f"{part}_seconds"] for part in ("download", "compute", "upload", "waiting")]
            assert sum(parts) + one.row["server_seconds"] == pytest.approx(one.row["round_seconds"])


def test_every_client_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "adagq"):
        run("adagq", REFUSED["payload cut short"], 4)
    (record,) = caplog.records
    assert f"client {LIAR} in round 1: refused (truncated" in record.getMessage()


@pytest.mark.parametrize("value", [np.nan, 3e38], ids=["a number that is none", "a number that overflows the sum"])
def test_floats_that_would_ruin_the_sum(value: float) -> None:
    """NaN is found by the decoder, a norm beyond float32 before the sum: in neither case is a round repeated."""
    vector = np.full(LAYOUT.elements, 3e38, np.float32)
    payload = Float32().encode(vector) if value == 3e38 else floats(None, value)  # type: ignore[arg-type]
    closed = run("fedavg", saying(payload=payload), 3)
    assert [one.row["round"] for one in closed] == [1, 2, 3]
    assert all(one.row["accuracy"] > 0 and one.row["refused"] == 1 for one in closed)
    assert [one.row["attempts"] for one in closed] == [1, 1, 1]


def test_norm_bound_cuts_what_is_far_above_the_median() -> None:
    """0.1 refused such an update, and had to repeat the first round; now it counts as one of the largest norm."""
    vector = np.full(LAYOUT.elements, 30.0, np.float32)
    lie = saying(payload=Float32().encode(vector))
    closed = run("fedavg", lie, 4, replace(SCHEDULE, norm_bound=10.0))
    for one in closed:
        assert (one.row["clients"], one.row["refused"], one.row["attempts"]) == (20, 0, 1)
        (incident,) = one.incidents
        assert (incident["client"], incident["kind"]) == (LIAR, "clamped")
        assert "norm" in incident["reason"]
    plain, bounded = (run("fedavg", Lie(), 4, replace(SCHEDULE, norm_bound=bound)) for bound in (0.0, 10.0))
    assert [one.row for one in plain] == [one.row for one in bounded]


def update(client: int = 0, **changes) -> Update:
    payload = Float32().encode(np.ones(4, np.float32))
    return replace(Update(client, 1, 10, payload, b"", 0, 1.0, 0.0, version=0), **changes)


def validator(*reports: Report) -> Validator:
    """Return one that asked clients 0 and 1 in round 1, and has these reports."""
    made = Validator(1, Layout.of_sizes([4]))
    for client in (0, 1):
        made.posted(Sync(client, 1, 0, 0, (), b""), Task(client, 1, Float32(), 1, 0.1, 0))
    for report in reports:
        made.report(report.client, report)
    return made


def test_losses_that_nobody_asked_for_are_left_out() -> None:
    asked = validator()
    believed = asked.report(0, Report(0, 1, 10, loss_before=1.0, loss_after=-1e9))
    assert believed is not None
    assert math.isnan(believed.loss_before)
    assert math.isnan(believed.loss_after)
    assert asked.incidents == []


def test_receipts_only_of_what_was_accepted_and_once() -> None:
    asked = validator(Report(0, 1, 10), Report(1, 1, 10))
    assert asked.update(0, update(0)) is not None
    assert asked.update(1, update(1, energy=NAN)) is None
    receipts = [Receipt(c, 1, 10, 0, 1, 1, 1.0, 0.0, (), 0.0, 1.0, 1.0, 1.0, 0.0) for c in (0, 0, 1, 5)]
    booked, trusted = asked.settle(Settlement(tuple(receipts), 4.0, 1.0), {0: 10})
    assert [receipt.client for receipt in booked] == [receipt.client for receipt in trusted] == [0]


def test_the_methods_row_says_which_codec_is_asked_for() -> None:
    assert method_of("fedavg").uplink == Float32()
    asked = validator(Report(0, 1, 10))
    assert asked.update(0, update(0, payload=QSGD(granularity="vector").encode(np.ones(4, np.float32)))) is None
    assert "codec" in asked.incidents[0].reason


def test_nobody_speaks_for_another_client() -> None:
    asked = validator(Report(0, 1, 10), Report(1, 1, 10))
    assert asked.update(0, update(1)) is None
    assert [(one.client, one.reason) for one in asked.incidents] == [(0, "an update in the name of client 1")]
    assert asked.update(1, update(1)) is not None  # its own still counts
