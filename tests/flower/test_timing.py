"""How long Flower's own part of an exchange is waited for: it varies, and that is no node's fault."""

import pytest

from adagq.flower.timing import PATIENCE, RECENT, Timing


def rounds_of(timing: Timing, *rests: list[float]) -> Timing:
    for one in rests:
        timing.begin()
        timing.usual_seconds(1)
        if one:
            timing._rests[1] = one
    timing.begin()
    return timing


def test_a_round_may_take_longer_than_any_recent_one() -> None:
    """Half of the nodes take longer than the median: waiting for no more than that made healthy nodes late."""
    timing = rounds_of(Timing(), [10.0, 12.0, 14.0], [4.0, 5.0, 6.0])
    assert timing.usual_seconds(1) == PATIENCE * 12.0


def test_what_is_long_ago_is_forgotten() -> None:
    assert rounds_of(Timing(), [100.0], *[[1.0]] * RECENT).usual_seconds(1) == PATIENCE * 1.0


def test_a_round_without_answers_doubles_it_up_to_a_limit() -> None:
    assert rounds_of(Timing(), [3.0], []).usual_seconds(1) == PATIENCE * 6.0
    assert rounds_of(Timing(), *[[]] * 30).usual_seconds(1) == PATIENCE * 600.0


@pytest.mark.parametrize("saved", [[2.0, 3.0], 3.0], ids=["recent rounds", "of an earlier version"])
def test_a_resumed_run_waits_as_long(saved: object) -> None:
    timing = Timing()
    timing.restore({"wires": {}, "usual": {"1": saved}})
    assert timing.usual_seconds(1) == PATIENCE * 3.0
    assert timing.to_json()["usual"]["1"][-1] == 3.0
