"""Deadlines from what recent rounds needed."""

import json
import math

import pytest

from adagq.codecs import QSGD
from adagq.deadlines import Deadlines, Pace, Patience, expected_seconds
from adagq.messages import Receipt, Sync, Task

INF = math.inf


def sync(client: int, nbytes: int = 100) -> Sync:
    return Sync(client, 1, 1, 0, (bytes(nbytes),), b"")


def task(client: int, **changes) -> Task:
    return Task(
        **(
            {"client": client, "round": 1, "codec": QSGD(levels=15), "epochs": 1, "learning_rate": 0.1, "seed": 0}
            | changes
        )
    )


def receipt(client: int, upload: float = 4.0, arrival: float = math.nan) -> Receipt:
    return Receipt(client, 1, 10, 15, 1000, 100, 1.0, 0.1, (), 0.0, 1.0, 10.0, upload, 0.0, arrival)


def after(*receipts: Receipt, report_seconds: float = 2.0) -> Pace:
    clients = [one.client for one in receipts]
    return Pace().after([sync(c) for c in clients], [task(c) for c in clients], receipts, report_seconds)


def test_none_before_there_is_a_history() -> None:
    assert Patience().deadlines(Pace(), [sync(0)]) == Deadlines(INF, INF)
    assert Patience(first_seconds=60.0).deadlines(Pace(), [sync(0)]) == Deadlines(30.0, 60.0)
    assert Patience(seconds=20.0).deadlines(Pace(), [sync(0)]) == Deadlines(10.0, 20.0)


def test_a_factor_times_the_last_arrival_and_the_last_report() -> None:
    pace = after(receipt(0, arrival=15.0), receipt(1, arrival=20.0))
    assert Patience(factor=1.5).deadlines(pace, [sync(0)]) == Deadlines(3.0, 30.0)
    assert Patience(factor=1.5).deadlines(pace, [sync(0)], missing_reports=True).updates == 31.0


def test_the_longest_of_five_rounds() -> None:
    pace = Pace()
    for arrival in (50.0, 20.0, 20.0, 20.0, 20.0, 20.0):
        pace = pace.after([sync(0)], [task(0)], [receipt(0, arrival=arrival)], math.nan)
    assert Patience(factor=2.0).deadlines(pace, [sync(0)]) == Deadlines(20.0, 40.0)


def test_one_that_is_slow_beyond_measure_does_not_stretch_it() -> None:
    others = [receipt(c, arrival=20.0) for c in range(9)]
    assert Patience().deadlines(after(*others, receipt(9, arrival=5000.0)), [sync(0)]).updates == 30.0
    assert Patience().deadlines(after(*others, receipt(9, arrival=100.0)), [sync(0)]).updates == 150.0


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [({}, 15.0), ({"epochs": 2}, 25.0), ({"budget_bytes": 3000}, 23.0), ({"codec": QSGD(levels=511)}, 19.0)],
)
def test_more_work_takes_longer(changes: dict, seconds: float) -> None:
    pace = after(receipt(0))
    assert expected_seconds(pace, [task(0, **changes)], [receipt(0)]) == pytest.approx(seconds, rel=0.1)


def test_a_whole_model_gets_the_time_that_its_size_takes() -> None:
    pace = after(receipt(0, arrival=20.0))
    assert Patience().deadlines(pace, [sync(0), sync(1, 5000)]).updates == pytest.approx(30.0 + 49.0)
    first = Pace().after([sync(0, 0)], [task(0)], [receipt(0, arrival=20.0)], 1.0)  # the first model came by seed
    assert Patience().deadlines(first, [sync(0)]).updates == INF


def test_survives_json() -> None:
    pace = after(receipt(0, arrival=15.0))
    assert Pace.from_json(json.loads(json.dumps(pace.to_json()))) == pace
