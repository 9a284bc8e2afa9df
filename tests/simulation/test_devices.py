"""Devices: the three ways to give a speed, probes, codec time, jitter."""

import pytest

from adagq.core.errors import ConfigError
from adagq.simulation.fleet import Device


def test_seconds_per_epoch_hold_for_an_equal_share_whatever_the_model():
    device = Device(epoch_seconds=15.5).calibrated(samples=450, flops_per_sample=123.0)
    assert device.train_seconds(450, epochs=1) == pytest.approx(15.5)
    assert device.train_seconds(450, epochs=5) == pytest.approx(77.5)
    assert device.train_seconds(900, epochs=1) == pytest.approx(31.0)  # twice the share takes twice as long
    assert device.probe_seconds(90, passes=3) == pytest.approx(15.5 * 90 / 450)  # three forwards = one of both


def test_flops():
    device = Device(flops_per_second=1e11).calibrated(samples=450, flops_per_sample=2e9)
    assert device.train_seconds(450, epochs=2) == pytest.approx(18.0)


def test_a_given_speed_wins():
    device = Device(epoch_seconds=99.0, seconds_per_sample=0.01)
    assert device.calibrated(100, 1.0).train_seconds(100, 1) == pytest.approx(1.0)


def test_codec_seconds():
    device = Device(epoch_seconds=1.0, encode_seconds_per_element=1e-8)
    assert device.encode_seconds(11_170_000) == pytest.approx(0.1117)
    assert device.decode_seconds(11_170_000) == pytest.approx(0.05585)


def test_jitter_is_bounded_and_belongs_to_the_round():
    device = Device(seconds_per_sample=0.1, jitter=0.2, seed=4)
    times = [device.train_seconds(10, 1, round=k) for k in range(200)]
    assert min(times) >= 0.8
    assert max(times) <= 1.2
    assert max(times) - min(times) > 0.3
    assert times[7] == device.train_seconds(10, 1, round=7)
    assert device.probe_seconds(10, 3, round=7) == pytest.approx(times[7])  # the same slow round for all work


def test_a_device_without_a_speed_says_so():
    with pytest.raises(ConfigError, match="epoch_seconds"):
        Device().calibrated(10, 1.0)
    with pytest.raises(ConfigError, match="calibrated"):
        Device(epoch_seconds=1.0).train_seconds(10, 1)
