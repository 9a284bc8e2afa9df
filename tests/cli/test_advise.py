"""`adagq advise`: a board's times scaled to a fleet of one's own, and how far they can be trusted."""

from pathlib import Path

import pytest

from adagq.benchmarks.advise import advise, nearest, planned, slowness
from adagq.benchmarks.leaderboard import RUNS, load
from adagq.core.errors import ConfigError
from adagq.core.jsonl import append_lines
from adagq.simulation.fleet import FleetConfig
from command import adagq

PARAMS = 11_173_962


def board(folder: Path, seeds: int = 3, task: str = "digits", best: str = "eden") -> Path:
    """A made-up board: every row takes as many minutes as its name has letters, `best` one; a seed adds seconds."""
    for entry in load([task], optimizers=["plain"], seeds=seeds):
        seconds = 60.0 * (1 if entry.method.name == best else len(entry.method.name)) + entry.seed
        spent = {"rounds": 10, "upload_bytes": 1, "download_bytes": 1, "state_bytes": 0, "best_accuracy": 0.9}
        keys = dict(zip(("task", "fleet", "optimizer", "method", "seed"), entry.key, strict=True))
        line = {**keys, "reached": entry.method.name != "lupa", "seconds": seconds, "settings": entry.fingerprint}
        append_lines(folder / RUNS, [{**line, **spent}])
    return folder


def test_the_boards_own_fleet_gets_the_boards_own_times(tmp_path: Path) -> None:
    fleet = next(entry.config.fleet for entry in load(fleets=["slower-10"]))
    advice = advise(fleet, PARAMS, board(tmp_path))
    assert advice.fleet == "slower-10"
    assert advice.distance == pytest.approx(1.0)
    best = advice.choices[0]
    assert (best.name, best.seconds) == ("eden", pytest.approx(62.0))
    assert advice.confidence.startswith("fair: ahead of all others beyond the luck of 3 seeds")
    assert "lupa" not in {choice.name for choice in advice.choices}  # it missed


def test_the_boards_other_task_says_whether_it_would_choose_likewise(tmp_path: Path) -> None:
    fleet = next(entry.config.fleet for entry in load(["digits"], ["slower-10"]))
    folder = board(tmp_path)
    assert "fashion" not in advise(fleet, PARAMS, folder).confidence
    board(tmp_path, task="fashion", best="stc")
    said = advise(fleet, PARAMS, folder).confidence
    assert "; on fashion stc is first, it takes 3.90 times as long" in said
    assert advise(fleet, PARAMS, folder, "fashion").choices[0].name == "stc"
    with pytest.raises(ConfigError, match="no runs of task 'cifar10'"):
        advise(fleet, PARAMS, folder, "cifar10")


def test_times_follow_the_predicted_rounds(tmp_path: Path) -> None:
    fleet = FleetConfig(uplink_mbps=0.5, downlink_mbps=7.0, epoch_seconds=31.0)
    advice = advise(fleet, PARAMS, board(tmp_path))
    eden = next(choice for choice in advice.choices if choice.name == "eden")
    # A bit up and a bit down of 11.17 M parameters: 22.3 s and 1.6 s beside an epoch of 31 s.
    assert eden.round.round_seconds == pytest.approx(31.0 + 22.5 + 1.6 + 0.1, abs=0.5)


def test_far_links_and_single_seeds_are_little_to_go_by(tmp_path: Path) -> None:
    slow = FleetConfig(uplink_mbps=0.001, downlink_mbps=0.01, epoch_seconds=15.0)
    assert "times off the board's nearest fleet" in advise(slow, PARAMS, board(tmp_path)).confidence
    (tmp_path / "one").mkdir()
    assert advise(FleetConfig(), PARAMS, board(tmp_path / "one", seeds=1)).confidence == "low: one seed"


def test_failing_clients_are_compared_with_failing_ones() -> None:
    configs = {entry.fleet: entry.config for entry in load(seeds=1)}
    theirs = {name: planned(config.fleet, PARAMS) for name, config in configs.items()}
    mine = planned(FleetConfig(uplink_mbps=0.5), PARAMS)
    assert nearest(mine, False, theirs, configs) == "slower-10"
    assert nearest(mine, True, theirs, configs) == "failing"
    assert slowness(theirs["slower-100"]) == pytest.approx(100 * slowness(theirs["paper"]))
    assert slowness(planned(FleetConfig(uplink_mbps=0.5), 2 * PARAMS)) == pytest.approx(2 * slowness(mine))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no runs of task 'digits' with the board's present settings"):
        advise(FleetConfig(), PARAMS, tmp_path)
    with pytest.raises(ConfigError, match="epoch_seconds"):
        advise(FleetConfig(epoch_seconds=None, flops_per_second=1e9), PARAMS, board(tmp_path))


def test_the_command(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text("clients = 5\nuplink_mbps = [1.0, 4.0]\n", "utf-8")
    ended = adagq("advise", str(fleet), "--params", "11M", "--board", str(board(tmp_path)), "--rows", "3")
    assert ended.returncode == 0, ended.stderr
    assert "Take eden." in ended.stdout
    assert "Confidence" in ended.stdout
