"""What the accuracy figure draws: measured points, over time, data or rounds."""

import numpy as np
import pytest

from adagq.report import summarize
from adagq.report.series import POINTS, accuracy_curves, to_target
from made_up import rows_and_ledger


def test_one_seed_is_drawn_as_it_was_measured() -> None:
    rows, _ = rows_and_ledger(("qsgd",), seeds=1, rounds=9)
    for over, key in (("time", "seconds"), ("rounds", "round")):
        curve = accuracy_curves(rows, over)["qsgd"]
        assert curve.grid.tolist() == [row[key] for row in rows]
        assert curve.mean.tolist() == [row["accuracy"] for row in rows]
        assert not curve.std.any()


def test_data_add_up_over_both_ways_and_rounds_that_were_not_evaluated() -> None:
    rows, _ = rows_and_ledger(("qsgd",), seeds=1, rounds=4, clients=5)
    rows[1]["accuracy"] = None
    curve = accuracy_curves(rows, "data", clients=5)["qsgd"]
    sent = np.cumsum([row["upload_bytes"] + row["download_bytes"] for row in rows]) / 5
    assert curve.grid.tolist() == sent[[0, 2, 3]].tolist()


def test_over_rounds_a_mean_is_of_the_same_rounds() -> None:
    rows, _ = rows_and_ledger(("qsgd",), seeds=2, rounds=6)
    rows = [row for row in rows if (row["seed"], row["round"]) not in ((0, 6), (1, 3))]
    curve = accuracy_curves(rows, "rounds")["qsgd"]
    assert curve.grid.tolist() == [1, 2, 4, 5]
    expected = np.mean([row["accuracy"] for row in rows if row["round"] == 4])
    assert curve.mean[2] == pytest.approx(expected)


def test_a_long_run_is_thinned_to_measured_points() -> None:
    rows, _ = rows_and_ledger(("qsgd",), seeds=1, rounds=3 * POINTS)
    curve = accuracy_curves(rows)["qsgd"]
    assert curve.grid.size == POINTS
    assert set(curve.grid.tolist()) <= {row["seconds"] for row in rows}


def test_what_the_target_took_on_every_axis() -> None:
    rows, _ = rows_and_ledger(("qsgd",), seeds=2, rounds=60)
    record = summarize(rows, 0.85)["methods"]["qsgd"]
    assert to_target(record, "time") == (record["seconds"]["mean"], record["seconds"]["std"])
    assert to_target(record, "rounds") == (record["rounds"]["mean"], record["rounds"]["std"])
    data = to_target(record, "data")
    assert data is not None
    assert data[0] == pytest.approx(record["upload_bytes"]["mean"] + record["download_bytes"]["mean"])
    assert to_target(summarize(rows, 0.99)["methods"]["qsgd"], "time") is None
