"""The paper's rules by hand, the ablations, checkpoints, and replies that cannot be trusted."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adagq.codecs import QSGD
from adagq.control import AdaGQ, Fixed, NormOnly
from adagq.core.errors import ConfigError
from adagq.core.messages import Facts, Receipt, Report

NAN = math.nan
CODEC = QSGD()
CURVE = tuple((b + 1) * 1000.0 for b in range(1, 17))  # fixed packing: b magnitude bits and a sign


def report(client, before, after, probe, round=2):
    return Report(client, round, 10, loss_before=before, loss_after=after, loss_probe=probe)


def receipt(client, compute, upload, levels=255, download=0.0, rates=CURVE, round=1):
    return Receipt(
        client=client,
        round=round,
        examples=10,
        levels=levels,
        upload_bytes=1000,
        download_bytes=1000,
        energy=1.0,
        error_energy=0.1,
        rate_bits=rates,
        train_loss=1.0,
        download_seconds=download,
        compute_seconds=compute,
        upload_seconds=upload,
        waiting_seconds=0.0,
    )


def chosen(controller, state, cohort):
    """Return the levels that each client of the cohort is to use."""
    return {client: choice.codec.levels for client, choice in controller.choose(state, cohort, CODEC).items()}


def probed(controller, state, cohort):
    """Return the pairs of levels that are probed with."""
    return {
        client: (one.levels, other.levels) for client, (one, other) in controller.probe(state, cohort, CODEC).items()
    }


def first(controller, clients=2):
    return controller.observe(controller.init(clients), Facts(1, (), (), NAN, 0.0))


def second(controller, before, after, probe, norm=1.0, server_seconds=0.0, clients=2):
    facts = Facts(
        2,
        tuple(report(i, before, after, probe) for i in range(clients)),
        tuple(receipt(i, 10.0, 9.0, download=1.0) for i in range(clients)),
        norm,
        server_seconds,
    )
    return controller.observe(first(controller, clients), facts)


def test_the_first_round_gives_everyone_s0_and_asks_for_no_probe():
    controller = AdaGQ(levels=200)
    assert controller.probe(controller.init(3), [0, 1, 2], CODEC) == {}
    state = first(controller, 3)
    assert chosen(controller, state, [0, 1, 2]) == {0: 200, 1: 200, 2: 200}
    assert probed(controller, state, [0, 1, 2])[2] == (200, 100)


@pytest.mark.parametrize(
    ("rates", "losses", "server_seconds", "expected"),
    [
        # T = 10 + 9 + 1 = 20 s. Paper: b = 8, b' = 7, T' = 10 + 9 * 7/8 + 1 = 18.875 s.
        # R = (2.0 - 1.8) / 20 = 0.0100; R' = (2.0 - 1.805) / 18.875 = 0.01033 > R: halve.
        ("paper", (2.0, 1.8, 1.805), 0.0, 127.5),
        # R' = (2.0 - 1.815) / 18.875 = 0.0098 < R: double.
        ("paper", (2.0, 1.8, 1.815), 0.0, 510.0),
        # With 100 s at the server T = 120, T' = 118.875: R = 0.001667, R' = 0.195 / 118.875 = 0.00164 < R.
        ("paper", (2.0, 1.8, 1.805), 100.0, 510.0),
        # The curve of fixed packing: T' = 10 + 9 * 8/9 + 1 = 19 s. R' = 0.1895 / 19 = 0.009974 < R: double;
        # by plain b it would be 0.1895 / 18.875 = 0.01004 > R: halve.
        ("curve", (2.0, 1.8, 1.8105), 0.0, 510.0),
        ("paper", (2.0, 1.8, 1.8105), 0.0, 127.5),
        # At a plateau the paper's rule runs away: nothing gained, R = R' = 0 keeps s ...
        ("paper", (2.0, 2.0, 2.0), 0.0, 255.0),
        # ... and a loss that rises either way doubles it, as T' is shorter: -0.1 / 18.875 < -0.1 / 20.
        ("paper", (2.0, 2.1, 2.1), 0.0, 510.0),
    ],
)
def test_the_sign_of_the_rate_difference_halves_or_doubles(rates, losses, server_seconds, expected):
    assert second(AdaGQ(rates=rates), *losses, server_seconds=server_seconds).mean_levels == expected


def test_the_norm_calibrates_from_the_second_aggregate_on():
    controller = AdaGQ(norm_gain=3.0)
    state = second(controller, 2.0, 2.0, 2.0, norm=8.0)
    assert state.mean_levels == 255.0
    facts = Facts(3, tuple(report(i, 2.0, 2.0, 2.0, 3) for i in range(2)), (), 2.0, 0.0)
    # s_hat = 255, 3 * (log2 2 - log2 8) = -6
    assert controller.observe(state, facts).mean_levels == 249.0


@pytest.mark.parametrize("norm", [0.0, NAN, math.inf, -1.0])
def test_a_norm_without_a_logarithm_leaves_s_unchanged(norm):
    state = second(AdaGQ(), 2.0, 1.8, 1.8, norm=norm)
    assert state.mean_levels == 255.0
    assert math.isnan(state.norm)


def test_at_the_floor_the_probe_is_above_and_the_sign_turns():
    controller = AdaGQ(levels=1.0)
    assert probed(controller, first(controller), [0, 1])[0] == (1, 2)
    # b = 1 and b' = 2: T = 20, curve: T' = 11 + 9 * 3/2 = 24.5.
    # R' = (2.0 - 1.0) / 24.5 > R = (2.0 - 1.8) / 20: more levels pay, double.
    assert second(controller, 2.0, 1.8, 1.0).mean_levels == 2.0
    # R' = 0.2 / 24.5 < R: they do not; half is below the floor, so it stays.
    assert second(controller, 2.0, 1.8, 1.8).mean_levels == 1.0


def test_s_stays_within_its_bounds():
    assert second(AdaGQ(levels=300, levels_max=400), 2.0, 1.8, 1.9).mean_levels == 400.0
    assert second(AdaGQ(levels=300, levels_min=200), 2.0, 1.8, 1.0).mean_levels == 600.0  # probed 2 s: it pays


def test_s_does_not_drift_when_rounding_does():
    controller = AdaGQ(adaptive=True)
    state = second(controller, 2.0, 2.0, 2.0)
    for round in range(3, 60):
        facts = Facts(round, (), (receipt(0, 10.0, 9.0), receipt(1, 10.0, 17.0)), 1.0, 0.0)
        state = controller.observe(state, facts)
    assert state.mean_levels == 255.0


def test_levels_follow_equal_finishing_times():
    # Last round at b = 8 with plain b: client 0 takes 1 s a bit, client 1 takes 2 s, both compute for 10 s.
    controller = AdaGQ(levels=35, rates="paper", adaptive=False)
    receipts = (receipt(0, 10.0, 8.0), receipt(1, 10.0, 16.0))
    state = controller.observe(first(controller), Facts(2, (), receipts, 1.0, 0.0))
    assert chosen(controller, state, [0, 1]) == {0: 63, 1: 7}  # mean 35
    # By the curve (b + 1): 8/9 s and 16/9 s a unit. tau = 10 + 56/9: (63 + 7) / 2 needs b + 1 = 7 and 4 (too
    # late: 64/9 s); b + 1 = 7 and 3 is (63 + 3) / 2 = 33, the nearest.
    controller = AdaGQ(levels=35, rates="curve", adaptive=False)
    state = controller.observe(first(controller), Facts(2, (), receipts, 1.0, 0.0))
    assert chosen(controller, state, [0, 1]) == {0: 63, 1: 3}


def test_compute_seconds_are_the_mean_of_all_rounds_and_upload_seconds_the_last():
    controller = AdaGQ(levels=35, rates="paper", adaptive=False)
    state = first(controller)
    for round, compute, upload in ((2, 8.0, 99.0), (3, 12.0, 16.0)):
        receipts = (receipt(0, 10.0, 8.0), receipt(1, compute, upload))
        state = controller.observe(state, Facts(round, (), receipts, 1.0, 0.0))
    assert chosen(controller, state, [0, 1]) == {0: 63, 1: 7}


def test_someone_new_gets_the_median():
    controller = AdaGQ(levels=35, rates="paper", adaptive=False)
    receipts = tuple(receipt(i, 10.0, 8.0 * (i + 1)) for i in range(3))
    state = controller.observe(first(controller, 4), Facts(2, (), receipts, 1.0, 0.0))
    choices = controller.choose(state, [0, 1, 2, 3], CODEC)
    assert choices[3] == choices[1]
    assert set(controller.choose(state, [1, 3, 77], CODEC)) == {1, 3, 77}  # a node that nobody announced


def test_the_switches_ablate():
    assert second(AdaGQ(adaptive=False), 2.0, 1.8, 1.8).mean_levels == 255.0
    controller = AdaGQ(adaptive=False)
    assert controller.probe(first(controller), [0], CODEC) == {}
    controller = AdaGQ(heterogeneous=False)
    state = second(controller, 2.0, 1.8, 1.8)
    assert state.mean_levels == 127.5
    assert chosen(controller, state, [0, 1]) == {0: 127, 1: 127}
    assert probed(controller, state, [0, 1])[1] == (127, 63)


def test_bad_replies_are_left_out_one_by_one():
    controller = AdaGQ()
    good = second(controller, 2.0, 1.8, 1.815)
    facts = Facts(
        2,
        (
            report(0, 2.0, 1.8, 1.815),
            report(1, NAN, 1.0, 1.0),
            report(2, 1e300, 1.0, -1e300),
            report(3, 2.0, math.inf, 0.0),
        ),
        (
            receipt(0, 10.0, 9.0, download=1.0),
            receipt(1, NAN, 9.0),
            receipt(2, -5.0, 1e300, rates=(NAN,) * 16),
            receipt(3, 10.0, math.inf, levels=0, rates=(1.0,)),
        ),
        1.0,
        NAN,
    )
    state = controller.observe(first(controller, 4), facts)
    assert state.mean_levels == good.mean_levels
    assert state.history.compute_rounds.tolist() == [1, 0, 0, 1]
    assert all(1 <= levels <= 65535 for levels in chosen(controller, state, range(4)).values())


anything = st.floats(allow_nan=True, allow_infinity=True, width=64)
bad_reports = st.lists(st.builds(report, st.integers(0, 4), anything, anything, anything), max_size=5)
bad_receipts = st.lists(
    st.builds(
        receipt,
        st.integers(0, 4),
        anything,
        anything,
        st.integers(-5, 100_000),
        anything,
        st.one_of(st.just(()), st.just(CURVE), st.tuples(*[anything] * 16)),
    ),
    max_size=5,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(bad_reports, bad_receipts, anything, anything), min_size=1, max_size=6), st.booleans())
def test_no_reply_makes_the_state_nan_negative_or_stuck(rounds, curve):
    controller = AdaGQ(rates="curve" if curve else "paper")
    state = controller.init(5)
    for round, (reports, receipts, norm, server_seconds) in enumerate(rounds, start=1):
        state = controller.observe(state, Facts(round, tuple(reports), tuple(receipts), norm, server_seconds))
        assert 1.0 <= state.mean_levels <= 65535.0
        assert all(1 <= levels <= 65535 for levels in chosen(controller, state, range(5)).values())
        assert all(min(pair) >= 1 for pair in probed(controller, state, range(5)).values())
        json.dumps(state.to_json(), allow_nan=False)
    # Good replies move it again.
    facts = Facts(99, (report(0, 2.0, 1.8, 1.0),), (receipt(0, 10.0, 9.0),), 1.0, 0.0)
    once = controller.observe(state, facts)
    assert once.mean_levels != state.mean_levels or state.mean_levels in (1.0, 65535.0)


def test_states_survive_json_exactly():
    for controller in (AdaGQ(), NormOnly(), Fixed(levels=255)):
        state = controller.init(3)
        facts = [Facts(1, (), (), NAN, 0.0)]
        for round in (2, 3):
            reports = tuple(report(i, 2 / 3, 0.6, 0.1 * round, round) for i in range(2))
            receipts = (receipt(0, 10 / 3, 0.1), receipt(1, 1 / 7, 5 / 3, rates=()))
            facts.append(Facts(round, reports, receipts, 1 / (3 * round), 0.1))
        for fact in facts:
            state = controller.observe(state, fact)
            text = json.dumps(state.to_json(), allow_nan=False)
            again = controller.from_json(json.loads(text))
            assert json.dumps(again.to_json()) == text
            assert controller.choose(again, [0, 1, 2], CODEC) == controller.choose(state, [0, 1, 2], CODEC)
            assert controller.probe(again, [0, 1, 2], CODEC) == controller.probe(state, [0, 1, 2], CODEC)
        after = controller.observe(state, facts[-1]).to_json()
        assert controller.observe(again, facts[-1]).to_json() == after


def test_observe_writes_to_nothing_it_was_given():
    controller = AdaGQ()
    state = second(controller, 2.0, 1.8, 1.8)
    before = json.dumps(state.to_json())
    controller.observe(state, Facts(3, (), (receipt(0, 99.0, 99.0),), 1.0, 0.0))
    assert json.dumps(state.to_json()) == before


@pytest.mark.parametrize(
    "settings_",
    [
        {"levels": 0.5},
        {"levels": NAN},
        {"levels_min": 0},
        {"levels_max": 70000},
        {"levels_min": 200, "levels_max": 300},
        {"b_min": 0},
        {"b_max": 17},
        {"norm_gain": math.inf},
        {"rates": "other"},
    ],
)
def test_settings_that_cannot_work_name_key_and_value(settings_):
    with pytest.raises(ConfigError, match=next(iter(settings_))):
        AdaGQ(**settings_)


def test_a_vote_halves_when_all_agree_and_one_client_moves_little() -> None:
    """Twenty clients: the probe is as good in less time. One of them says the opposite, or nothing."""
    controller = AdaGQ(vote="leave-one-out")

    def levels(*lies: Report) -> float:
        reports = [report(client, 1.0, 0.5, 0.5) for client in range(20 - len(lies))]
        facts = Facts(2, (*reports, *lies), tuple(receipt(client, 10.0, 5.0) for client in range(20)), 1.0, 0.0)
        return controller.observe(first(controller, 20), facts).mean_levels

    assert levels() == 127.5
    for lie in (report(19, 1.0, 0.5, 1e6), report(19, -1e6, 1e6, 1e6), report(19, NAN, NAN, NAN)):
        assert abs(math.log2(levels(lie) / levels())) <= 2 / 19 + 1e-9


def test_a_vote_that_one_client_decides_moves_nothing() -> None:
    controller = AdaGQ(vote="leave-one-out")
    votes = [report(0, 1.0, 0.5, 0.5), report(1, 1.0, 0.5, 0.5), report(2, 1.0, 0.5, 0.99)]
    facts = Facts(2, tuple(votes), tuple(receipt(client, 10.0, 5.0) for client in range(3)), 1.0, 0.0)
    assert controller.observe(first(controller, 3), facts).mean_levels == 255.0
    assert AdaGQ().observe(first(AdaGQ(), 3), facts).mean_levels != 255.0
    with pytest.raises(ConfigError, match="vote = 'loud'"):
        AdaGQ(vote="loud")  # type: ignore[arg-type]
