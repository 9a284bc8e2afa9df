"""Exclusion: after so many bad rounds a client pauses, comes back, and pauses for longer."""

import json

from adagq.core.messages import Incident, IncidentKind
from adagq.server.exclusion import LONGEST_PAUSE, Exclusions

EVERYONE = range(4)


def play(rounds: int, bad: set[int], limit: int = 3, start: Exclusions | None = None, kind: IncidentKind = "refused"):
    """Run rounds in which client 3 offends whenever it takes part and the round is a bad one."""
    state, taken = start or Exclusions(), []
    for round in range(1, rounds + 1):
        cohort = state.admitted(EVERYONE, round, least=1)
        taken.append(3 in cohort)
        offended = [Incident(3, round, kind, "…")] if 3 in cohort and round in bad else []
        state = state.after(round, offended, cohort, limit)
        state = Exclusions.from_json(json.loads(json.dumps(state.to_json())))
    return state, taken


def test_three_bad_rounds_exclude_and_the_pause_grows() -> None:
    state, taken = play(200, bad=set(range(201)))
    assert taken[:3] == [True] * 3
    assert taken[3:13] == [False] * 10
    assert taken[13]  # tried again …
    assert taken[14:34] == [False] * 20  # … and left out for longer
    assert taken[34]
    assert taken[35:75] == [False] * 40
    assert state.records.keys() == {3}


def test_ten_clean_rounds_take_a_strike_away() -> None:
    state, taken = play(60, bad={1, 2})
    assert all(taken)
    assert not state.records
    state, taken = play(100, bad={1, 14, 27, 40, 53, 66, 79, 92})
    assert all(taken)


def test_slow_and_lost_clients_are_not_excluded() -> None:
    for kind in ("lost", "late", "failed", "diverged"):
        assert all(play(50, set(range(51)), kind=kind)[1])


def test_enough_clients_always_remain() -> None:
    state = Exclusions()
    for round in (1, 2):
        everyone = [Incident(client, round, "clamped", "…") for client in (0, 1, 2) if round == 1 or client]
        state = state.after(round, everyone, EVERYONE, limit=1)
    assert state.admitted(EVERYONE, 3, least=1) == (3,)
    assert state.admitted(EVERYONE, 3, least=2) == (0, 3)  # the one that is nearest to its return
    assert state.admitted(EVERYONE, 3, least=9) == (0, 1, 2, 3)


def test_a_pause_has_an_end() -> None:
    state, round = Exclusions(), 0
    for _ in range(40):
        round += 1
        state = state.after(round, [Incident(3, round, "refused", "…")], EVERYONE, limit=1)
        [(client, pause)] = state.excluded_in(round)
        assert client == 3
        assert pause <= LONGEST_PAUSE
        round = state.records[3].until
        assert 3 in state.admitted(EVERYONE, round + 1, least=1)
