"""Rates from the seconds of whole transfers."""

import numpy as np
import pytest

from adagq.flower.link_rates import Link


def test_a_line_through_noisy_transfers_of_different_sizes() -> None:
    rng = np.random.default_rng(0)
    link = Link()
    for _ in range(12):
        link.saw(0, 3.0 + rng.uniform(0, 3))  # a poll every three seconds
        link.saw(2_000_000, 3.0 + rng.uniform(0, 3) + 2_000_000 / 250_000)
    assert link.rate_bps == pytest.approx(250_000, rel=0.1)
    assert link.seconds(1_000_000, measured=99.0) == pytest.approx(4.0, rel=0.1)


def test_hiccups_do_not_move_it() -> None:
    link = Link()
    for number in range(10):
        link.saw(1000, 1.0)
        link.saw(1_001_000, 2.0 if number not in (3, 7) else 60.0)
    assert link.rate_bps == pytest.approx(1_000_000)


def test_sizes_alike_tell_no_rate() -> None:
    link = Link()
    link.saw(0, 0.2)
    for _ in range(5):
        link.saw(3000, 0.3)
    assert link.rate_bps is None
    assert link.seconds(3000, measured=0.3) == pytest.approx(0.0, abs=0.11)


def test_large_payloads_of_one_size_are_told_from_messages_without() -> None:
    link = Link()
    link.saw(0, 0.3)
    link.saw(5_000_000, 8.3)
    assert link.seconds(5_000_000, measured=8.3) == pytest.approx(8.0)


def test_a_rate_once_told_is_kept_while_sizes_are_alike() -> None:
    link = Link()
    link.saw(0, 0.0)
    link.saw(1_000_000, 1.0)
    for _ in range(40):
        link.saw(300_000, 0.3)
    assert link.rate_bps == pytest.approx(1_000_000)


def test_a_clock_that_runs_ahead_is_part_of_the_constant() -> None:
    link = Link()
    link.saw(0, -3600.0)
    link.saw(1_000_000, -3598.0)
    assert link.rate_bps == pytest.approx(500_000)


def test_it_survives_a_checkpoint() -> None:
    link = Link(known_bps=5.0)
    link.saw(10, 2.0)
    assert Link.from_json(link.to_json()) == link
