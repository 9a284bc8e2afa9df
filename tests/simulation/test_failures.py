"""Failures by name: the same anywhere, as often as asked, at every step, and from files."""

from collections import Counter

import pytest

from adagq.core.errors import ConfigError
from adagq.simulation import fleet as fleets
from adagq.simulation.fleet import Presence, Reliability, parse_presence


def test_draws_are_as_frequent_as_asked_and_differ_by_attempt() -> None:
    flaky = Reliability(drop_rate=0.3, seed=1)
    drawn = [flaky.fails(round) for round in range(4000)]
    counts = Counter(drawn)
    assert counts[None] == pytest.approx(2800, abs=120)
    assert all(counts[step] == pytest.approx(400, abs=80) for step in ("report", "training", "upload"))
    assert drawn == [flaky.fails(round) for round in range(4000)]
    assert drawn != [flaky.fails(round, attempt=1) for round in range(4000)]


def test_availability_and_departure() -> None:
    rare = Reliability(availability=0.25, seed=1)
    assert Counter(rare.fails(round) for round in range(2000))["report"] == pytest.approx(1500, abs=80)
    leaver = Reliability(leave_round=3)
    assert [leaver.fails(round) for round in (1, 2, 3, 99)] == [None, None, "report", "report"]


def test_presence_repeats_and_may_never_end() -> None:
    assert Presence((0.0,), (True,), 1.0).leaves(5.0) == float("inf")
    assert Presence((0.0, 10.0), (False, True), 20.0).leaves(5.0) == 5.0
    assert Presence((0.0, 10.0), (False, True), 20.0).leaves(15.0) == 20.0
    assert Presence((0.0, 10.0, 15.0), (True, True, False), 20.0).leaves(22.0) == 35.0


@pytest.mark.parametrize("text", ["", "0,2\n", "0,x\n", "5,1\n5,0\n"])
def test_bad_presence_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="trace = 'file'"):
        parse_presence(text, "file")


def test_groups_override_the_fleet(tmp_path) -> None:
    (tmp_path / "shift.csv").write_text("seconds,present\n0,1\n60,0\n120,1\n")
    data = {
        "drop_rate": 0.1,
        "availability": [0.5, 0.9],
        "client": [
            {"count": 2},
            {"drop_rate": 0.4, "availability": 1.0, "leave_round": 7, "availability_trace": "shift.csv"},
        ],
    }
    first, second, third = (c.reliability for c in fleets.build(fleets.fleet_config(data, tmp_path), seed=1).clients)
    assert (first.drop_rate, second.drop_rate, third.drop_rate) == (0.1, 0.1, 0.4)
    assert first.availability != second.availability
    assert 0.5 <= first.availability <= 0.9
    assert (third.availability, third.leave_round, third.leaves(10.0)) == (1.0, 7, 60.0)


@pytest.mark.parametrize(
    "bad", [{"drop_rate": 1.5}, {"availability": -0.1}, {"leave_round": 0}, {"availability_trace": 3}]
)
def test_settings_that_cannot_work(bad: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        fleets.fleet_config(bad)
