"""Allocation: bounds, equal finishing, monotone, mean near the target, a million clients in a second."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adagq.control import allocate, bits_of, levels_of

seconds = st.floats(0.0, 100.0)
paces = st.floats(0.01, 100.0)


@st.composite
def fleets(draw):
    n = draw(st.integers(1, 30))
    compute = draw(st.lists(seconds, min_size=n, max_size=n))
    pace = draw(st.lists(paces, min_size=n, max_size=n))
    curve = draw(st.booleans())
    rates = None
    if curve:
        steps = draw(st.lists(st.lists(st.floats(0.01, 3.0), min_size=16, max_size=16), min_size=n, max_size=n))
        rates = np.cumsum(np.array(steps), axis=1)
    target = draw(st.floats(1.0, 65535.0))
    b_min = draw(st.integers(1, 4))
    b_max = draw(st.integers(b_min + 1, 16))
    return np.array(compute), np.array(pace), rates, target, b_min, b_max


def breakpoints_of(compute, pace, rates, n):
    grid = np.tile(np.arange(1.0, 17.0), (n, 1)) if rates is None else rates
    return compute[:, None] + pace[:, None] * grid


@settings(max_examples=300, deadline=None)
@given(fleets())
def test_finish_times_are_as_equal_as_whole_bits_allow_and_the_mean_as_near(case):
    compute, pace, rates, target, b_min, b_max = case
    n = compute.size
    bits = allocate(compute, pace, rates, target, b_min, b_max)
    assert bits.min() >= b_min
    assert bits.max() <= b_max

    # At the moment when the last of those above the floor finishes, nobody could have afforded one bit more.
    moments = breakpoints_of(compute, pace, rates, n)
    finish = moments[np.arange(n), bits - 1]
    lifted = bits > b_min
    tau = finish[lifted].max() if lifted.any() else -np.inf
    one_more = moments[np.arange(n), np.minimum(bits, 15)]
    assert np.all((one_more > tau) | (bits == b_max))

    # No other tau has a mean nearer to the target: try every breakpoint.
    def mean_at(t):
        return np.mean(2.0 ** (b_min + (moments[:, b_min:b_max] <= t).sum(axis=1)) - 1)

    chosen = abs(np.mean(2.0**bits - 1) - target)
    best = min(abs(mean_at(t) - target) for t in [-np.inf, *moments[:, b_min:b_max].ravel()])
    assert chosen <= best + 1e-9


@settings(max_examples=200, deadline=None)
@given(fleets(), st.floats(1.0, 50.0))
def test_a_slower_link_or_a_slower_computer_never_gets_more_bits(case, factor):
    compute, pace, rates, target, b_min, b_max = case
    twin = None if rates is None else np.vstack([rates, rates[0], rates[0]])
    bits = allocate(
        np.append(compute, [compute[0], compute[0] + factor]),
        np.append(pace, [pace[0] * factor, pace[0]]),
        twin,
        target,
        b_min,
        b_max,
    )
    assert bits[-2] <= bits[0]
    assert bits[-1] <= bits[0]


@pytest.mark.parametrize(
    ("compute", "pace", "mean_levels", "expected"),
    [
        # Equal clients: whole bits only, 255 is 8 bits for both.
        ([10, 10], [1, 1], 255, [8, 8]),
        # b_j = (t_cp_i - t_cp_j + b_i * P/r_i) / (P/r_j); b_i = 6, t_cp equal, P/r = 1 and 2 s: b_j = 6 / 2.
        ([10, 10], [2, 1], 35, [3, 6]),
        # The same with t_cp_j 2 s longer: b_j = (10 - 12 + 6 * 1) / 2 = 2; mean (3 + 63) / 2 = 33.
        ([12, 10], [2, 1], 33, [2, 6]),
        # Figure 3's four clients: three at 20 Mbit/s, one at 5, so P/r is 1, 1, 1 and 4; 6 bits for the fast
        # ones is tau = 6 and floor(6 / 4) = 1 bit for the slow one: mean (3 * 63 + 1) / 4 = 47.5.
        ([0, 0, 0, 0], [1, 1, 1, 4], 47.5, [6, 6, 6, 1]),
        # A client whose compute alone exceeds tau gets b_min: tau = 10 + 7 s < 30 s; mean (1 + 127) / 2 = 64.
        ([30, 10], [1, 1], 64, [1, 7]),
        # Rounded means here are 1 (tau < 2), then (3 + 1) / 2 = 2 at tau = 2, (7 + 1) / 2 = 4 at tau = 3, and
        # (15 + 3) / 2 = 9 at tau = 4: target 6.4 is nearer to 4 than to 9.
        ([0, 0], [1, 2], 6.4, [3, 1]),
        # and 6.6 nearer to 9.
        ([0, 0], [1, 2], 6.6, [4, 2]),
        # Beyond reach on either side.
        ([0, 5], [1, 2], 0.0, [1, 1]),
        ([0, 5], [1, 2], 1e9, [16, 16]),
    ],
)
def test_hand_computed_cases(compute, pace, mean_levels, expected):
    assert allocate(compute, pace, None, mean_levels).tolist() == expected


def test_elements_scale_the_plain_bits():
    # 11.17 M parameters at 20 Mbit/s take 0.5585 s a bit, at 5 Mbit/s four times that: as figure 3 above.
    bits = allocate([0] * 4, [1 / 20e6] * 3 + [1 / 5e6], None, 47.5, elements=11.17e6)
    assert bits.tolist() == [6, 6, 6, 1]


def test_a_curve_replaces_plain_bits():
    # Fixed packing sends (b + 1) * d: at tau = 7 with 1 s and 2 s per d bits, b = 6 and floor(7 / 2) - 1 = 2.
    curve = np.tile(np.arange(2.0, 18.0), (2, 1))
    assert allocate([0, 0], [1, 2], curve, (63 + 3) / 2).tolist() == [6, 2]


def test_a_curve_that_dips_gives_no_bit_before_the_one_below_it():
    curve = np.arange(1.0, 17.0)
    curve[4] = 1.5  # 5 bits for less than 2: taken to cost what 4 bits do
    # tau = 3 is 3 bits (7 levels), tau = 4 is 5 bits (31 levels): 15 is nearer to 7, 20 to 31.
    assert allocate([0.0], [1.0], curve[None, :], 15.0).tolist() == [3]
    assert allocate([0.0], [1.0], curve[None, :], 20.0).tolist() == [5]


def test_no_history_means_the_median_of_the_others():
    nan = float("nan")
    known = allocate([10, 12, 14, 12], [1, 2, 3, 2], None, 20.0)
    assert allocate([10, 12, 14, nan], [1, 2, 3, nan], None, 20.0).tolist() == known.tolist()
    assert allocate([nan, nan], [nan, nan], None, 255.0).tolist() == [8, 8]
    curve = np.tile(np.arange(2.0, 18.0), (3, 1))
    holed = curve.copy()
    holed[1] = nan
    assert (allocate([0] * 3, [1, 2, 3], holed, 9.0) == allocate([0] * 3, [1, 2, 3], curve, 9.0)).all()


def test_dead_and_free_links():
    assert allocate([0, 0], [np.inf, 1.0], None, 128.0).tolist() == [1, 8]
    assert allocate([0, 0], [np.inf, np.inf], None, 128.0).tolist() == [1, 1]
    assert allocate([0.0, 0.0], [0.0, 0.0], None, 60000.0).tolist() == [16, 16]
    assert allocate([], [], None, 255.0).size == 0


def test_the_sampled_search_agrees_with_the_plain_one():
    rng = np.random.default_rng(5)
    n = 6000  # 90,000 breakpoints: sampled
    for compute, pace in (
        (rng.uniform(10, 20, n), rng.uniform(0.5, 2, n)),
        (np.full(n, 15.0), np.where(np.arange(n) % 2, 0.5, 5.0)),  # ties, and a pattern a stride could follow
        (rng.uniform(0, 1, n), rng.lognormal(0, 4, n)),
    ):
        moments = np.sort((compute[:, None] + pace[:, None] * np.arange(2, 17)).ravel())
        bits = allocate(compute, pace, None, 255.0)
        chosen = abs(np.mean(2.0**bits - 1) - 255.0)

        def mean_at(t, compute=compute, pace=pace):
            return np.mean(2.0 ** np.clip(np.floor((t - compute) / pace + 1e-12), 1, 16) - 1)

        assert all(chosen <= abs(mean_at(t) - 255.0) + 1e-6 for t in moments[:: len(moments) // 500])


@pytest.mark.parametrize("curves", [False, True])
def test_a_million_clients_in_under_a_second(curves, capsys):
    rng = np.random.default_rng(0)
    n = 1_000_000
    compute = rng.uniform(14.0, 17.0, n)
    pace = 1.0 / rng.uniform(5e6, 20e6, n)
    rates = np.arange(2.0, 18.0) * 11.17e6 * rng.uniform(0.9, 1.1, (n, 1)) if curves else None
    durations = []  # CPU seconds: other processes on the machine are not this test's business
    for _ in range(3):
        start = time.process_time()
        bits = allocate(compute, pace, rates, 255.0, elements=11.17e6)
        durations.append(time.process_time() - start)
    with capsys.disabled():
        print(f"\nallocate, 1,000,000 clients, {'curves' if curves else 'plain'}: {min(durations):.2f} s")
    assert abs(np.mean(2.0**bits - 1) - 255.0) < 0.01
    assert min(durations) < 1.0


def test_bits_and_levels_invert_each_other():
    assert [bits_of(levels_of(b)) for b in range(1, 17)] == list(range(1, 17))
