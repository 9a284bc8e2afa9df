"""Links against a step-by-step integration of their rates, and the trace formats."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adagq.core.errors import ConfigError
from adagq.simulation.fleet import FREE, ConstantLink, PacketLink, PiecewiseLink, RoundLink, parse_trace, read_trace

LINKS = [
    ConstantLink(8e6),
    RoundLink(8e6, 0.5, seed=3),
    PiecewiseLink((0.0, 1.0, 1.5), (8e6, 0.0, 2e6), 4.0),
    PiecewiseLink.drawn(8e6, 0.5, 0.7, seed=3, intervals=10),
    PacketLink((0.001, 0.001, 0.004, 0.1)),
]


def test_constant_and_free():
    assert ConstantLink(5e6).seconds(11_170_000 * 4) == pytest.approx(71.488)
    assert ConstantLink(8e6, latency_seconds=0.05).seconds(1_000_000) == pytest.approx(1.05)
    assert ConstantLink(8e6, latency_seconds=0.05).seconds(0) == 0.0
    assert FREE.seconds(10**12) == 0.0


@pytest.mark.parametrize("link", LINKS, ids=lambda link: type(link).__name__)
@settings(max_examples=60, deadline=None)
@given(a=st.integers(1, 10**7), b=st.integers(1, 10**7), start=st.floats(0.0, 1e4), round=st.integers(0, 9))
def test_more_bytes_take_longer_and_a_faster_link_is_faster(link, a, b, start, round):
    assert link.seconds(0, start, round) == 0.0
    first = link.seconds(a, start, round)
    assert 0.0 <= first < math.inf
    assert link.seconds(a + b, start, round) >= first - 1e-9
    assert link.scaled(2.0).seconds(a, start, round) <= first + 1e-9
    assert link.seconds(a, start, round) == first


@pytest.mark.parametrize("link", LINKS[:4], ids=lambda link: type(link).__name__)
@settings(max_examples=60, deadline=None)
@given(a=st.integers(1, 10**7), b=st.integers(1, 10**7), start=st.floats(0.0, 1e3))
def test_two_transfers_in_a_row_take_as_long_as_both_at_once(link, a, b, start):
    first = link.seconds(a, start)
    assert first + link.seconds(b, start + first) == pytest.approx(link.seconds(a + b, start), rel=1e-6, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(
    pieces=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 5)), min_size=1, max_size=6),
    units=st.integers(1, 400),
    start=st.integers(0, 100),
)
def test_piecewise_against_counting_tick_by_tick(pieces, units, start):
    if not any(rate for _, rate in pieces):
        pieces = [*pieces, (1, 1)]
    starts, t = [], 0
    for length, _ in pieces:
        starts.append(float(t))
        t += length
    link = PiecewiseLink(tuple(starts), tuple(8.0 * rate for _, rate in pieces), float(t))
    ticks = [rate for length, rate in pieces for _ in range(length)]
    left, now = units, start
    while left > ticks[now % t]:
        left -= ticks[now % t]
        now += 1
    expected = now - start + left / ticks[now % t] if left else now - start
    assert link.seconds(units, start) == pytest.approx(expected)


def test_packets_against_counting():
    # Opportunities at 1, 1, 4 ms, then 5, 5, 8, then 9, ...
    link = PacketLink((0.001, 0.001, 0.004))
    moments = [lap * 4 + ms for lap in range(50) for ms in (1, 1, 4)]
    for start_ms in (0, 1, 2, 5, 7):
        ahead = [ms for ms in moments if ms >= start_ms]
        for packets in (1, 2, 3, 7, 30):
            expected = (ahead[packets - 1] - start_ms) / 1000
            assert link.seconds(packets * 1500, start_ms / 1000) == pytest.approx(expected, abs=1e-9)
            assert link.seconds(packets * 1500 - 1499, start_ms / 1000) == pytest.approx(expected, abs=1e-9)


def test_drawn_rates_have_the_mean_and_the_seed_that_was_asked_for():
    link = PiecewiseLink.drawn(8e6, 0.3, 10.0, seed=1)
    assert sum(link.rates_bps) / len(link.rates_bps) == pytest.approx(8e6, rel=0.05)
    assert link == PiecewiseLink.drawn(8e6, 0.3, 10.0, seed=1)
    assert link != PiecewiseLink.drawn(8e6, 0.3, 10.0, seed=2)
    rates = [RoundLink(8e6, 0.3, seed=1).rate_bps(round) for round in range(500)]
    assert sum(rates) / 500 == pytest.approx(8e6, rel=0.05)
    assert len(set(rates)) == 500


def test_csv_traces():
    link = parse_trace("# a comment\nseconds, bits_per_second\n5,8e6\n\n7,0\n8,16e6\n")
    assert link == PiecewiseLink((0.0, 2.0, 3.0), (8e6, 0.0, 16e6), 4.0)
    assert parse_trace("0,8e6").seconds(5_000_000) == pytest.approx(5.0)


def test_mahimahi_traces(tmp_path):
    path = tmp_path / "trace.up"
    path.write_text("".join(f"{ms}\n" for ms in range(1, 1001)))  # a packet a millisecond: 12 Mbit/s
    assert read_trace(path).seconds(15_000_000) == pytest.approx(10.0)
    assert read_trace(path, latency_seconds=0.1).seconds(1500) == pytest.approx(0.101)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no numbers"),
        ("seconds,bits_per_second\n", "holds no numbers"),
        ("0,1e6\nx,1\n", "line 2 is 'x,1'"),
        ("0,1e6\n1\n", "line 2"),
        ("0,1e6\n1,-5\n", "line 2"),
        ("0,nan\n", "line 1"),
        ("1,1e6\n1,2e6\n", "seconds must rise"),
        ("0,0\n1,0\n", "every rate is 0"),
        ("1\n2.5\n", "line 2 is '2.5'"),
        ("5\n4\n", "must not fall"),
        ("0\n", "the last millisecond is 0"),
        ("hello\n", "line 1 is 'hello'"),
    ],
)
def test_a_broken_trace_is_one_clear_line(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_trace(text, "some.csv")
    assert message in str(caught.value)
    assert "some.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_trace_is_one_clear_line(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_trace(tmp_path / "none.csv")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a text file"):
        read_trace(tmp_path / "binary")
