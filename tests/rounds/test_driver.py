"""The driver: a method's own loop, to its goal, with observers that see every round before the caller does."""

from dataclasses import replace
from itertools import islice

import pytest
from test_synchronous import SCHEDULE, backend

from adagq.core.errors import ConfigError
from adagq.methods.table import method_of
from adagq.rounds import LOOPS, Goal, RoundResult, Schedule, drive, synchronous
from adagq.simulation.processes import open_pool

METHOD = method_of("fedavg")


def test_it_stops_at_the_goal_and_observers_come_first() -> None:
    seen: list[tuple[str, int]] = []

    def note(name: str):
        return lambda result: seen.append((name, result.row["round"]))

    with open_pool(1) as pool:
        goal = Goal(target=2.0, max_rounds=3)
        for result in drive(METHOD, backend(pool, METHOD), SCHEDULE, goal, observers=[note("disk"), note("screen")]):
            assert seen[-2:] == [("disk", result.row["round"]), ("screen", result.row["round"])]
            seen.append(("caller", result.row["round"]))
    assert seen == [(name, round) for round in (1, 2, 3) for name in ("disk", "screen", "caller")]


@pytest.mark.parametrize(("extra_rounds", "more"), [(0, 0), (3, 3)])
def test_the_target_ends_a_run_and_extra_rounds_follow_it(extra_rounds: int, more: int) -> None:
    with open_pool(1) as pool:
        whole = [one.row["accuracy"] for one in islice(synchronous(METHOD, backend(pool, METHOD), SCHEDULE), 12)]
        first = next(round for round, accuracy in enumerate(whole, start=1) if accuracy >= 0.9)
        goal = Goal(0.9, 12, extra_rounds)
        rounds = [one.row["round"] for one in drive(METHOD, backend(pool, METHOD), SCHEDULE, goal)]
    assert 1 < first < 9
    assert rounds == list(range(1, first + more + 1))


def test_a_run_that_goes_on_counts_its_past() -> None:
    goal = Goal(target=2.0, max_rounds=5)
    with open_pool(1) as pool:
        running = backend(pool, METHOD)
        past = list(islice(drive(METHOD, running, SCHEDULE, goal), 2))
        rows = [one.row for one in past]
        rest = list(drive(METHOD, running, SCHEDULE, goal, state=past[-1].state, past=rows))
    assert [one.row["round"] for one in rest] == [3, 4, 5]


def test_a_method_names_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def halving(method, backend, schedule, state):
        """Every round of the synchronous loop, its accuracy halved."""
        for result in synchronous(method, backend, schedule, state):
            yield replace(result, row=result.row | {"accuracy": result.row["accuracy"] / 2})

    monkeypatch.setattr(LOOPS, "_parts", {**LOOPS})  # what is added here is gone with the test
    LOOPS.add("halving", halving)
    method = replace(METHOD, loop="halving")
    with open_pool(1) as pool:
        (plain,) = drive(METHOD, backend(pool, METHOD), SCHEDULE, Goal(2.0, 1))
        (halved,) = drive(method, backend(pool, method), SCHEDULE, Goal(2.0, 1))
    assert isinstance(halved, RoundResult)
    assert halved.row["accuracy"] == plain.row["accuracy"] / 2
    with open_pool(1) as pool, pytest.raises(ConfigError, match=r"synchronos.*synchronous"):
        next(drive(replace(METHOD, loop="synchronos"), backend(pool, METHOD), SCHEDULE, Goal(2.0, 1)))


def test_cohorts_are_drawn_by_name_from_those_that_are_there() -> None:
    schedule = Schedule(seed=1, participants=3)
    present = [0, 2, 3, 5, 8, 13]
    cohorts = {(round, attempt): schedule.cohort(round, present, attempt) for round in range(5) for attempt in range(5)}
    for cohort in cohorts.values():
        assert len(cohort) == 3
        assert list(cohort) == sorted(set(cohort) & set(present))
    assert cohorts == {key: schedule.cohort(key[0], present, key[1]) for key in cohorts}
    assert len(set(cohorts.values())) > 10
    assert schedule.cohort(1, present[:3]) == (0, 2, 3)
    assert replace(schedule, participants=0).cohort(1, present) == tuple(present)
