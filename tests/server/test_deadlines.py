"""Deadlines from what recent rounds needed."""

import json
import math
from dataclasses import replace

import pytest

from adagq.codecs import QSGD
from adagq.core.messages import Receipt, Sync, Task
from adagq.server.deadlines import DeadlinePolicy, Deadlines, Pace, expected_seconds

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
    return Pace().after([sync(c) for c in clients], [task(c) for c in clients], receipts, {clients[0]: report_seconds})


def test_none_before_there_is_a_history() -> None:
    assert DeadlinePolicy().deadlines(Pace(), [sync(0)]) == Deadlines(INF, INF)
    assert DeadlinePolicy(first_seconds=60.0).deadlines(Pace(), [sync(0)]) == Deadlines(30.0, 60.0)
    assert DeadlinePolicy(seconds=20.0).deadlines(Pace(), [sync(0)]) == Deadlines(10.0, 20.0)


def test_a_factor_times_the_last_arrival_and_the_last_report() -> None:
    pace = after(receipt(0, arrival=15.0), receipt(1, arrival=20.0))
    assert DeadlinePolicy(factor=1.5).deadlines(pace, [sync(0)]) == Deadlines(3.0, 30.0)
    assert DeadlinePolicy(factor=1.5).deadlines(pace, [sync(0)], missing_reports=True).updates == 31.0


def test_the_longest_of_five_rounds() -> None:
    pace = Pace()
    for arrival in (50.0, 20.0, 20.0, 20.0, 20.0, 20.0):
        pace = pace.after([sync(0)], [task(0)], [receipt(0, arrival=arrival)])
    assert DeadlinePolicy(factor=2.0).deadlines(pace, [sync(0)]) == Deadlines(20.0, 40.0)


def test_one_that_is_slow_beyond_measure_does_not_stretch_it() -> None:
    others = [receipt(c, arrival=20.0) for c in range(9)]
    assert DeadlinePolicy().deadlines(after(*others, receipt(9, arrival=5000.0)), [sync(0)]).updates == 30.0
    assert DeadlinePolicy().deadlines(after(*others, receipt(9, arrival=100.0)), [sync(0)]).updates == 150.0


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [({}, 15.0), ({"epochs": 2}, 25.0), ({"budget_bytes": 3000}, 23.0), ({"codec": QSGD(levels=511)}, 19.0)],
)
def test_more_work_takes_longer(changes: dict, seconds: float) -> None:
    pace = after(receipt(0))
    assert expected_seconds(pace, [task(0, **changes)], [receipt(0)]) == pytest.approx(seconds, rel=0.1)


def test_a_whole_model_gets_the_time_that_its_size_takes() -> None:
    pace = after(receipt(0, arrival=20.0))
    assert DeadlinePolicy().deadlines(pace, [sync(0), sync(1, 5000)]).updates == pytest.approx(30.0 + 49.0)
    first = Pace().after([sync(0, 0)], [task(0)], [receipt(0, arrival=20.0)], {0: 1.0})  # the first model came by seed
    assert DeadlinePolicy().deadlines(first, [sync(0)]).updates == INF


def test_reports_that_take_most_of_a_round_get_their_time() -> None:
    """0.1 waited for half of the round at most: with slow downloads everybody was late, in every attempt."""
    pace = after(receipt(0, arrival=20.0), receipt(1, arrival=20.0), report_seconds=16.0)
    assert DeadlinePolicy().deadlines(pace, [sync(0)]) == Deadlines(24.0, 30.0)
    assert DeadlinePolicy(seconds=20.0).deadlines(pace, [sync(0)]) == Deadlines(20.0, 20.0)


def test_a_slow_clients_report_delays_all_and_counts_for_none() -> None:
    """Client 9 works 20 times as long; for its report all waited until second 60, and their updates came after it."""
    receipts = [receipt(c, arrival=64.0) for c in range(9)]
    slow = replace(receipt(9, arrival=310.0), compute_seconds=300.0)
    syncs, tasks = [sync(c) for c in range(10)], [task(c) for c in range(10)]
    reports = dict.fromkeys(range(9), 10.0) | {9: 60.0}
    pace = Pace().after(syncs, tasks, [*receipts, slow], reports, decided_seconds=60.0)
    assert pace.reports == (10.0,)
    assert pace.arrivals == (15.0,)  # busy for 15 s; after the decision there were 14 of the 64 s left


def test_time_waited_in_vain_does_not_count() -> None:
    syncs, tasks = [sync(0), sync(1)], [task(0), task(1)]
    pace = Pace().after(syncs, tasks, [receipt(0, arrival=40.0)], {0: 5.0}, decided_seconds=20.0)
    assert (pace.arrivals, pace.reports) == ((25.0,), (5.0,))


def test_survives_json() -> None:
    pace = after(receipt(0, arrival=15.0))
    assert Pace.from_json(json.loads(json.dumps(pace.to_json()))) == pace
