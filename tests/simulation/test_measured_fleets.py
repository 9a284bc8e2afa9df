"""Fleets from measured links, traces in Mbit/s, and rates that cannot be meant."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adagq.core.errors import ConfigError
from adagq.simulation.fleet import build, fleet_config, fleet_from_csv, fleet_toml, load_fleet, parse_trace, slow_link

OFFICES = """\
name,uplink_mbps,downlink_mbps,latency_seconds,epoch_seconds,count
lyon, 4.8, 68, 0.012, 20,
lyon, 5.2, 70, 0.011, 22,
# a comment
turin, 18.9, 95, , , 3
"""


def test_a_line_is_a_client_and_a_name_is_one_client(tmp_path):
    fleet = fleet_from_csv(OFFICES, epoch_seconds=14.0)
    lyon, turin = fleet.client
    assert (lyon.name, lyon.uplink_mbps, lyon.downlink_mbps, lyon.epoch_seconds) == ("lyon", 5.0, 69.0, 21.0)
    assert (turin.count, turin.epoch_seconds, fleet.epoch_seconds) == (3, None, 14.0)
    path = tmp_path / "fleet.toml"
    path.write_text(fleet_toml(fleet, "offices.csv"))
    assert load_fleet(path) == fleet
    built = build(load_fleet(path), seed=0)
    assert [client.uplink.rate_bps for client in built.clients] == [5e6, 18.9e6, 18.9e6, 18.9e6]
    assert [client.device.epoch_seconds for client in built.clients] == [21.0, 14.0, 14.0, 14.0]


def test_clients_without_names_are_counted():
    fleet = fleet_from_csv("uplink_mbps,downlink_mbps\n5,50\n6,60\n")
    assert [client.name for client in fleet.client] == ["client 1", "client 2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; its first line names the columns"),
        ("name,uplink_mbps,downlink_mbps\n", "no measurement"),
        ("name,uplink,downlink_mbps\na,1,2\n", "unknown column 'uplink': did you mean 'uplink_mbps'"),
        ("name,uplink_mbps\na,1\n", "uplink_mbps and downlink_mbps"),
        ("uplink_mbps,uplink_mbps,downlink_mbps\n1,2,3\n", "once"),
        ("uplink_mbps,downlink_mbps\n5\n", "line 2 has 1 cells"),
        ("uplink_mbps,downlink_mbps\n5,\n", "line 2: downlink_mbps is empty"),
        ("uplink_mbps,downlink_mbps\nfast,5\n", "'fast'"),
        ("uplink_mbps,downlink_mbps\n-1,5\n", "'-1'"),
        ("uplink_mbps,downlink_mbps\n20000000,5\n", "2e+07 Mbit/s: a typing error?"),
        ("uplink_mbps,downlink_mbps,count\n5,5,0\n", "count"),
    ],
)
def test_a_csv_that_is_wrong_is_one_clear_line(text, message):
    with pytest.raises(ConfigError) as caught:
        fleet_from_csv(text, source="links.csv")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_traces_in_mbit_per_second():
    by_bits = parse_trace("seconds,bits_per_second\n0,8e6\n2,5e5\n")
    assert parse_trace("seconds, mbps\n0,8\n2,0.5\n") == by_bits


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,8\n1,20\n", "no rate above 20 bit/s; if these are Mbit/s, begin the file with a line seconds,mbps"),
        ("seconds,bits_per_second\n0,8\n1,20\n", "if these are Mbit/s"),
        ("seconds,mbps\n0,8e6\n", "rates up to 8e+06 Mbit/s; if these are bit/s"),
        ("seconds,kbps\n0,800\n", "its header is 'seconds,kbps', must be"),
    ],
)
def test_a_trace_in_the_other_unit_is_refused(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_trace(text, "lte.csv")
    assert message in str(caught.value)


def test_slow_traces_that_say_so_are_taken():
    assert parse_trace("seconds,bits_per_second\n0,300\n").rates_bps == (300.0,)


def test_a_model_that_takes_days_is_named():
    config = fleet_config({"client": [{"uplink_mbps": 5}, {"uplink_mbps": 5, "downlink_mbps": 0.0001}]})
    said = slow_link(build(config, seed=0), 44.7e6)
    assert said.startswith("client 1 needs 41.4 days to receive the model once")
    assert "typing error" in said
    assert slow_link(build(config, seed=0).with_free_links(), 44.7e6) == ""


def test_the_generated_lte_fleet_is_what_its_script_makes(tmp_path):
    """`examples/traces`: the committed files come from the script beside them, and a fleet can be built of them."""
    folder = Path(__file__).parents[2] / "examples/traces"
    copy = Path(shutil.copy(folder / "make.py", tmp_path))
    subprocess.run([sys.executable, copy], check=True)
    for path in [*sorted(folder.glob("*.csv")), folder / "lte.toml"]:
        assert (tmp_path / path.name).read_text("utf-8") == path.read_text("utf-8")
    fleet = build(load_fleet(folder / "lte.toml"), seed=0)
    assert len(fleet) == 20
    assert len({fleet.clients[0].uplink.seconds(1e6, start) for start in (0.0, 100.0, 200.0)}) == 3
