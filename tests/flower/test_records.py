"""Messages through Flower's records and back."""

import math
from dataclasses import fields, replace

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy import ones

import adagq.flower.records as records
from adagq.codecs import QSGD, ErrorFeedback, TopK
from adagq.codecs.registry import entries
from adagq.core.errors import PayloadError
from adagq.core.messages import Report, Sync, Task, Update

SYNC = Sync(3, 2, 1, 0, (b"first", b"second"), b"buffers", 9, (QSGD(levels=15), QSGD(levels=7)))
TASK = Task(3, 2, ErrorFeedback(TopK(fraction=0.2)), 5, 0.1, 9, 1000, True)
UPDATE = Update(3, 2, 100, b"payload", b"", 15, 2.0, 0.5, tuple(float(n) for n in range(1, 17)), 0.25, 4)
REPORT = Report(3, 2, 100, 1.0, 0.5, 0.75)
MESSAGES = (SYNC, replace(SYNC, payloads=(), probe=None), TASK, REPORT, UPDATE)


def same(one: object, other: object) -> bool:
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)]
    return all(a == b or (a != a and b != b) for a, b in pairs)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was(message: object) -> None:
    record = RecordDict()
    records.write(record, message)
    assert same(records.read(record, type(message)), message)


@pytest.mark.parametrize("codec", [codec for entry in entries() for codec in entry.examples], ids=str)
def test_every_codec_travels(codec: object) -> None:
    assert records.codec_of(records.codec_text(codec)) == codec


def test_nobody_averages_a_payload_by_mistake() -> None:
    record = RecordDict()
    records.write(record, UPDATE)
    with pytest.raises(TypeError):
        record["adagq.update.arrays"]["payload"].numpy()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("examples", "many", "a number is expected"),
        ("examples", 2.5, "a whole number"),
        ("examples", math.nan, "a whole number"),
        ("rate-bits", ["a"], "a list of numbers"),
        ("levels", b"1", "a number is expected"),
        ("levels", True, "a number is expected"),
        ("energy", [1.0], "a number is expected"),
        ("rate-bits", 3.0, "a list of numbers"),
        ("rate-bits", [True], "a list of numbers"),
        ("train-loss", [1.0], "a number is expected"),
        ("payload", [1] * 100, ""),
    ],
)
def test_fields_of_another_kind_are_refused(key: str, value: object, message: str) -> None:
    record = RecordDict()
    records.write(record, UPDATE)
    record["adagq.update"][key] = value
    if not message:  # bytes come from arrays alone: a plain field of that name is nobody's
        assert records.read(record, Update).payload == UPDATE.payload
        return
    with pytest.raises(PayloadError, match=message):
        records.read(record, Update)


@pytest.mark.parametrize("key", ["loss-before", "loss-after", "loss-probe", "examples", "round", "client"])
@pytest.mark.parametrize("value", [[1.0], "x", b"", [1, 2], True])
def test_no_field_of_a_report_may_be_anything_else(key: str, value: object) -> None:
    record = RecordDict()
    records.write(record, REPORT)
    record["adagq.report"][key] = value
    with pytest.raises(PayloadError, match=key):
        records.read(record, Report)


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(PayloadError, match="holds no"):
        records.read(RecordDict(), Update)
    with pytest.raises(PayloadError, match="lacks"):
        records.read(RecordDict({"adagq.update": ConfigRecord({"client": 1})}), Update)
    foreign = RecordDict()
    records.write(foreign, UPDATE)
    foreign["adagq.update.arrays"] = ArrayRecord({"payload": Array(ones(3))})
    with pytest.raises(PayloadError, match="stype"):
        records.read(foreign, Update)
    with pytest.raises(PayloadError, match="not a codec"):
        records.codec_of('{"kind": "nosuch"}')
