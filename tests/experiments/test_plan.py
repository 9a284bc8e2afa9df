"""Predicted rounds against arithmetic by hand, the prototype's numbers, and the words that go with them."""

import math
from dataclasses import replace

import pytest

from adagq.core.errors import ConfigError
from adagq.experiments.plan import clients_of, plan, round_of, sweep
from adagq.experiments.plan_input import PlanInput, PlannedClient, parse_count, parse_span
from adagq.experiments.predicted_bits import bits_per_parameter
from adagq.methods.table import METHODS, compared, method_of

NAMES = {"uncompressed", "fedavg", "fedavg-fp16", "qsgd", "topk", "fedpaq", "adagq", "adagq-fit", "adagq-auto"}


def by_name(**settings):
    given = PlanInput(params=11.17e6, **settings)
    return {row.method: row for row in plan(given, (*compared(), "topk-plain")).methods}


def test_by_hand_for_one_client():
    rows = by_name(
        uplink_mbps=(5.0, 5.0), clients=1, compute_spread=0.0, server_seconds=1.0, five_epoch_efficiency=0.67
    )
    assert set(rows) == NAMES | {"topk-plain"}
    # 11.17 M * 32 bits / 5 Mbit/s = 71.488 s up, / 70 Mbit/s = 5.106 s down.
    assert rows["uncompressed"].round_seconds == pytest.approx(15.5 + 71.488 + 5.10629 + 1.0, abs=1e-4)
    assert rows["fedavg"].round_seconds == pytest.approx(5 * 15.5 + 71.488 + 5.10629 + 1.0, abs=1e-4)
    # per epoch of progress: / (5 * 0.67)
    assert rows["fedavg"].progress_seconds == pytest.approx(155.09429 / 3.35, abs=1e-4)
    # 9 bits: 20.106 s; encoding and decoding 11.17 M elements at 10 ns: 0.1117 s
    assert rows["qsgd"].round_seconds == pytest.approx(15.5 + 0.1117 + 20.106 + 5.10629 + 1.0, abs=1e-4)
    assert rows["topk-plain"].upload_seconds == pytest.approx(14.2976, abs=1e-3)
    # coded indices: 3.2 bits of values and the entropy of a tenth, 0.469, of indices
    assert rows["topk"].upload_bits == pytest.approx(3.2 + 0.469, abs=0.02)
    # one client: the mean is its own, 255 levels are 8 bits and a sign
    assert rows["adagq"].upload_bits == 9.0
    # slack 0.5 s at 5 Mbit/s: 2.5 Mbit, 0.2238 bits per parameter
    assert rows["adagq-fit"].upload_bits == pytest.approx(0.22381, abs=1e-5)
    assert rows["adagq-fit"].round_seconds == pytest.approx(15.5 + 0.1117 + 0.5 + 1.6 / 32 * 5.10629 + 1.0, abs=1e-2)


def test_the_paper_fleet_comes_out_as_measured_in_the_prototype():
    rows = by_name()
    assert rows["uncompressed"].round_seconds == pytest.approx(91.7, rel=0.03)
    assert rows["adagq"].round_seconds == pytest.approx(29.3, rel=0.1)
    assert rows["adagq-fit"].tax == pytest.approx(1.03, abs=0.05)
    slow = by_name(uplink_mbps=(0.5, 2.0))
    assert slow["adagq-fit"].tax == pytest.approx(1.17, abs=0.05)
    assert slow["adagq-fit"].upload_bits == pytest.approx(0.41, abs=0.05)


def test_what_is_assumed_is_said_and_the_default_promises_what_was_measured():
    paper_fleet = plan(PlanInput(params=11.17e6))
    assert paper_fleet.saved == pytest.approx(0.31, abs=0.05)  # docs/results.md: 31 % simulated on digits
    assert "bring as much as 4.6 rounds" in paper_fleet.assumption
    assert plan(PlanInput(params=11.17e6, five_epoch_efficiency=0.67)).saved == pytest.approx(0.49, abs=0.03)


def test_a_row_is_all_that_a_method_needs_to_be_planned():
    rows = {row.method: row for row in plan(PlanInput(params=1e6), (*compared(), *METHODS)).methods}
    assert set(rows) == {*METHODS, "uncompressed"} - {"ideal"}
    assert set(NAMES) == {row.method for row in plan(PlanInput(params=1e6)).methods}


def test_rows_are_sorted_and_the_split_adds_up():
    result = plan(PlanInput(params=6.2e6, server_seconds=0.7))
    progress = [row.progress_seconds for row in result.methods]
    assert progress == sorted(progress)
    for row in result.methods:
        parts = row.compute_seconds + row.upload_seconds + row.download_seconds + 0.7
        assert row.round_seconds == pytest.approx(parts)
        assert row.tax > 1.0


def test_says_in_words_whether_it_pays():
    slow = plan(PlanInput(params=11.17e6))
    assert slow.pays
    assert slow.best == "adagq-fit"
    assert slow.verdict.startswith("Compression pays: adagq-fit")
    fast = plan(PlanInput(params=11.17e6, uplink_mbps=(500.0, 2000.0), downlink_mbps=2000.0))
    assert not fast.pays
    assert fast.best == "uncompressed"
    assert fast.verdict.startswith("Compression does not pay")
    assert 0.0 < fast.saved < 0.05
    # With links that are nearly free, encoding is all that compression adds.
    costs = plan(PlanInput(params=11.17e6, uplink_mbps=(1e6, 1e6), downlink_mbps=1e6, fit_slack_seconds=0.0))
    assert -0.05 < costs.saved < 0.0
    assert "saves 0 %" in costs.verdict


def test_the_sweep_saves_more_on_slower_links_and_less_with_more_computing():
    grid = sweep(PlanInput(params=11.17e6, downlink_mbps=1e4), (0.5, 5.0, 50.0, 5000.0), (1.0, 15.5, 300.0))
    assert len(grid.saved) == 4
    assert all(len(row) == 3 for row in grid.saved)
    for column in zip(*grid.saved, strict=True):
        assert list(column) == sorted(column, reverse=True)
    for row in grid.saved[:-1]:
        assert list(row) == sorted(row, reverse=True)
    # At 5 Gbit/s encoding costs more than it saves, the less so the longer a round computes.
    assert list(grid.saved[-1]) == sorted(grid.saved[-1])
    assert grid.saved[-1][0] < 0.0
    assert grid.saved[0][0] > 0.8
    assert grid.saved[-1][-1] < 0.01


def test_numbers_as_people_type_them():
    assert [parse_count(text) for text in ("11.2M", "700k", "1G", "1.5b", "42", "1e6")] == [
        11.2e6,
        7e5,
        1e9,
        1.5e9,
        42.0,
        1e6,
    ]
    for text in ("", "M", "-3M", "many", "nan", "inf"):
        with pytest.raises(ConfigError, match="params = "):
            parse_count(text)
    assert parse_span("5,20") == (5.0, 20.0)
    for text in ("", "a", "20,5", "0,5", "1,2,3", "nan"):
        with pytest.raises(ConfigError, match="uplink = "):
            parse_span(text)


@pytest.mark.parametrize(
    "settings",
    [
        {"params": 0},
        {"params": math.nan},
        {"uplink_mbps": (20.0, 5.0)},
        {"downlink_mbps": -1},
        {"clients": 0},
        {"compute_seconds": 0},
        {"compute_spread": 1.0},
        {"server_seconds": -1},
    ],
)
def test_bad_input_is_one_line(settings):
    with pytest.raises(ConfigError) as caught:
        PlanInput(**{"params": 1e6, **settings})
    assert next(iter(settings)).removesuffix("_mbps") in str(caught.value)
    assert "must be" in str(caught.value)


def test_without_a_barrier_everybody_goes_at_its_own_pace():
    """Two clients, trips of 100 and 20 s: in 100 s six updates are in, so two take 33.3 s; with a barrier 100."""
    members = tuple(PlannedClient(1e3, 1e3, seconds) for seconds in (100.0, 20.0))
    given = PlanInput(params=1.0, members=members)
    clients = clients_of(given)

    def planned(name, **knobs):
        row = replace(method_of(name), epochs=1, loop_knobs=tuple(knobs.items()))
        return round_of(given, row, clients)

    assert round_of(given, replace(method_of("fedavg"), epochs=1), clients).round_seconds == pytest.approx(100.0)
    assert planned("fedbuff").round_seconds == pytest.approx(2 / (1 / 100 + 1 / 20), rel=1e-6)
    assert planned("fedbuff").compute_seconds == pytest.approx(100 / 6 + 20 * 5 / 6, rel=1e-6)
    # A step after every arrival, and nobody more than one version behind: the slow one sets the pace, twice a round.
    assert planned("fedsa", lag=1).round_seconds == pytest.approx(200.0)
    served = round_of(replace(given, server_seconds=3.0), replace(method_of("fedasync"), epochs=1), clients)
    assert served.round_seconds == pytest.approx(2 / (1 / 100 + 1 / 20) + 2 * 3.0, rel=1e-6)  # two steps


def test_codecs_with_a_memory_are_asked_once_they_are_warm():
    bits = {name: bits_per_parameter(method_of(name).uplink) for name in ("dgc", "tcs", "powersgd", "cmfl", "stc")}
    assert bits["dgc"] == pytest.approx(32 * 0.01 + 0.08, abs=0.03)
    assert bits["tcs"] == pytest.approx(16 * 0.07 + 0.14, abs=0.02)  # a float16 each, and which the 2 % are
    assert bits["cmfl"] == pytest.approx(32.0, abs=0.01)
    assert bits["powersgd"] == pytest.approx(32 * 4 * 256 / (256 * 2304), rel=0.02)
    assert bits_per_parameter(method_of("powersgd").downlink) == pytest.approx(32 * 4 * 2560 / (256 * 2304), rel=0.02)
