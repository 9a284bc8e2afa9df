"""Fleets: the paper's, sigma_r, TOML, and settings that cannot work."""

import pytest

from adagq.core.errors import ConfigError
from adagq.simulation.fleet import (
    ConstantLink,
    FleetConfig,
    PacketLink,
    PiecewiseLink,
    RoundLink,
    build,
    fleet_config,
    load_fleet,
    paper,
    sigma_r,
)


def uplinks(fleet):
    return [client.uplink.rate_bps / 1e6 for client in fleet.clients]


def test_the_paper_fleet():
    fleet = build(paper(), seed=1).calibrated([450] * 20, flops_per_sample=1.0)
    assert len(fleet) == 20
    assert all(5 <= rate <= 20 for rate in uplinks(fleet))
    assert max(uplinks(fleet)) / min(uplinks(fleet)) > 2
    assert {client.downlink for client in fleet.clients} == {ConstantLink(70e6)}
    epochs = [client.device.train_seconds(450, 1) for client in fleet.clients]
    assert all(0.9 * 15.5 <= t <= 1.1 * 15.5 for t in epochs)
    assert max(epochs) - min(epochs) > 1.0
    assert fleet.server_seconds == 0.0
    assert fleet.server_cores == 8.0


def test_the_same_seed_is_the_same_fleet_and_a_further_client_changes_nobody():
    assert build(paper(), seed=1) == build(paper(), seed=1)
    assert build(paper(), seed=1) != build(paper(), seed=2)
    assert build(paper(clients=30), seed=1).clients[:20] == build(paper(), seed=1).clients
    slow_down = build(paper(downlink_mbps=20.0), seed=1)
    assert uplinks(slow_down) == uplinks(build(paper(), seed=1))


@pytest.mark.parametrize("ratio", [1.0, 2.0, 4.0, 6.0])
def test_sigma_r_takes_both_ends(ratio):
    rates = uplinks(build(sigma_r(ratio), seed=3))
    assert len(rates) == 20
    assert max(rates) == 20.0
    assert min(rates) == pytest.approx(20.0 / ratio)


def test_scales_apply_to_both_or_to_the_one_that_is_named():
    plain = build(paper(), seed=1)
    both = build(paper(link_scale=0.1), seed=1)
    up = build(paper(uplink_scale=0.1), seed=1)
    for old, slow, slow_up in zip(plain.clients, both.clients, up.clients, strict=True):
        assert slow.uplink.seconds(1000) == pytest.approx(10 * old.uplink.seconds(1000))
        assert slow.downlink.seconds(1000) == pytest.approx(10 * old.downlink.seconds(1000))
        assert slow_up.uplink == slow.uplink
        assert slow_up.downlink == old.downlink
    assert plain.with_free_links().clients[0].uplink.seconds(10**9) == 0.0
    assert plain.with_free_links().clients[0].device == plain.clients[0].device


def test_unequal_shares_take_unequal_time():
    fleet = build(paper(clients=2, epoch_seconds=10.0), seed=1).calibrated([100, 300], 1.0)
    assert [c.device.train_seconds(n, 1) for c, n in zip(fleet.clients, (100, 300), strict=True)] == [
        5.0,
        15.0,
    ]


def test_rates_that_vary():
    by_round = build(paper(rate_spread=0.3), seed=1).clients
    assert isinstance(by_round[0].uplink, RoundLink)
    assert by_round[0].uplink.seed != by_round[1].uplink.seed != by_round[1].downlink.seed
    in_time = build(paper(rate_spread=0.3, rate_interval_seconds=5.0, latency_seconds=0.1), seed=1).clients
    assert isinstance(in_time[0].uplink, PiecewiseLink)
    assert in_time[0].uplink.latency_seconds == 0.1


def test_toml(tmp_path):
    (tmp_path / "lte.up").write_text("1\n2\n3\n")
    (tmp_path / "fleet.toml").write_text(
        """
        downlink_mbps = 20
        server_seconds = 0.5
        server_cores = 32
        link_scale = 0.5
        [[client]]
        count = 3
        uplink_mbps = [5, 20]
        [[client]]
        uplink_mbps = 4
        flops_per_second = 1e11
        jitter = 0.1
        join_round = 10
        [[client]]
        count = 2
        uplink_trace = "lte.up"
        """
    )
    fleet = build(load_fleet(tmp_path / "fleet.toml"), seed=1)
    assert len(fleet) == 6
    assert fleet.server_seconds == 0.5
    assert fleet.server_cores == 32
    assert fleet.clients[3].uplink == ConstantLink(2e6)
    assert fleet.clients[3].downlink == ConstantLink(10e6)
    assert fleet.clients[3].device.flops_per_second == 1e11
    assert fleet.clients[3].device.epoch_seconds is None  # its own way of giving a speed
    assert fleet.clients[0].device.epoch_seconds is not None
    assert isinstance(fleet.clients[5].uplink, PacketLink)
    assert fleet.clients[5].uplink.packet_bytes == 750
    assert [client.join_round for client in fleet.clients] == [1, 1, 1, 10, 1, 1]


def test_a_trace_for_all_gives_way_to_a_rate_of_ones_own(tmp_path):
    (tmp_path / "t.csv").write_text("0,1e6\n")
    data = {"uplink_trace": "t.csv", "client": [{"count": 1}, {"uplink_mbps": 7}]}
    fleet = build(fleet_config(data, tmp_path), seed=1)
    assert isinstance(fleet.clients[0].uplink, PiecewiseLink)
    assert fleet.clients[1].uplink == ConstantLink(7e6)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"clients": 0}, "fleet.clients = 0: must be a whole number >= 1"),
        ({"clients": 2.5}, "fleet.clients = 2.5: must be a whole number >= 1"),
        ({"clients": True}, "fleet.clients = True"),
        ({"uplink_mbps": -5}, "fleet.uplink_mbps = -5: must be a number or [low, high] > 0"),
        ({"uplink_mbps": [20, 5]}, "fleet.uplink_mbps = [20, 5]: must be a number or [low, high] > 0"),
        ({"uplink_mbps": [1, 2, 3]}, "fleet.uplink_mbps = [1, 2, 3]"),
        ({"uplink_mbps": []}, "fleet.uplink_mbps = []"),
        ({"uplink_mbps": "fast"}, "fleet.uplink_mbps = 'fast'"),
        ({"downlink_mbps": float("nan")}, "fleet.downlink_mbps = nan"),
        ({"sigma_r": 0.5}, "fleet.sigma_r = 0.5: must be a number >= 1"),
        ({"sigma_r": 2, "clients": 1}, "fleet.clients = 1: must be >= 2"),
        ({"sigma_r": 2, "client": [{}]}, "fleet.sigma_r = 2: cannot be combined"),
        ({"jitter": 1.5}, "fleet.jitter = 1.5: must be a number >= 0 and <= 0.99"),
        ({"jitter": [0.1, 0.2]}, "fleet.jitter = [0.1, 0.2]"),
        ({"server_cores": 0}, "fleet.server_cores = 0: must be a number > 0"),
        ({"server_cores": -2.0}, "fleet.server_cores = -2.0"),
        ({"server_cores": float("nan")}, "fleet.server_cores = nan"),
        ({"server_cores": "all"}, "fleet.server_cores = 'all'"),
        ({"server_cores": [1, 2]}, "fleet.server_cores = [1, 2]"),
        ({"client": [{"server_cores": 2}]}, "unknown key 'fleet.client[0].server_cores'"),
        ({"uplink_mpbs": 5}, "unknown key 'fleet.uplink_mpbs': did you mean 'fleet.uplink_mbps'?"),
        ({"zzz": 5}, "unknown key 'fleet.zzz': did you mean 'fleet."),
        ({"client": [{}, {"count": 0}]}, "fleet.client[1].count = 0"),
        (
            {"client": [{"uplnk_mbps": 0}]},
            "unknown key 'fleet.client[0].uplnk_mbps': did you mean 'fleet.client[0].uplink_mbps'?",
        ),
        ({"client": 3}, "fleet.client = 3: must be an array of tables"),
        ({"uplink_trace": 5}, "fleet.uplink_trace = 5: must be the path"),
        ({"join_round": 0}, "fleet.join_round = 0"),
    ],
)
def test_a_bad_fleet_is_one_line_with_key_value_and_range(data, message):
    with pytest.raises(ConfigError) as caught:
        fleet_config(data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_fleet(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("clients = = 3")
    with pytest.raises(ConfigError, match="not TOML"):
        load_fleet(tmp_path / "bad.toml")
    with pytest.raises(ConfigError, match="epoch_seconds"):
        FleetConfig(epoch_seconds=None)
