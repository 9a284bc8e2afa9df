"""`make netbench` without its namespaces: the scenes, what is predicted, what is left to run, the table."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "netbench"
OURS = ("namespaces", "scenes", "table", "run")


@pytest.fixture(scope="module")
def netbench() -> Iterator[dict[str, ModuleType]]:
    sys.path.insert(0, str(FOLDER))
    yield {name: __import__(name) for name in OURS}
    sys.path.remove(str(FOLDER))
    for name in OURS:
        del sys.modules[name]


def test_links_change_in_a_measurement_when_they_do_in_the_simulator(netbench: dict[str, ModuleType]) -> None:
    scenes, fleets = netbench["scenes"].SCENES, pytest.importorskip("adagq.simulation.fleet")
    assert scenes["fast"].rates_mbps(0, 0.0) == [(pytest.approx(mbps), pytest.approx(70.0)) for mbps in (5, 8, 12, 20)]
    changing = scenes["changing"]
    before, after = changing.rates_mbps(1, 9.9), changing.rates_mbps(1, 10.1)
    assert all(old[0] != new[0] for old, new in zip(before, after, strict=True))
    link = fleets.build(changing.fleet(False), 1).clients[2].uplink
    megabit = link.seconds(125_000 * netbench["scenes"].SEGMENT_SHARE, start=10.0)
    assert megabit == pytest.approx(1 / after[2][0], rel=1e-6)


def test_a_cut_leaves_a_table_and_the_next_call_goes_on(netbench: dict[str, ModuleType], tmp_path: Path) -> None:
    given = Namespace(repeats=2, scenes="fast", rows="flower-fedavg,adagq-auto", save=tmp_path)
    run = netbench["run"]
    todo = [one for _, one in run.missing(given, "measured")]
    assert todo[:2] == [("fast", 1, "flower-fedavg"), ("fast", 1, "adagq-auto")]
    assert len(todo) == 4
    for row, seconds in (("flower-fedavg", 90.0), ("adagq-auto", 30.0)):
        rounds = [{"round": 1, "seconds": seconds / 2, "accuracy": 0.5}]
        rounds += [{"round": 2, "seconds": seconds, "accuracy": 0.93}]
        exchanges = [{"round": number, "upload_bytes": 1e6} for number in (1, 2, 3)]
        run.write(tmp_path / "fast" / f"measured-{row}-1.json", {"rounds": rounds, "exchanges": exchanges})
    predicted = {"rounds": [{"round": 2, "seconds": 33.0, "accuracy": 0.91}]}
    (tmp_path / "fast" / "predicted-adagq-auto-1.json").write_text(json.dumps(predicted), "utf-8")
    assert [one for _, one in run.missing(given, "measured")] == todo[2:]
    lines = netbench["table"].table(tmp_path).splitlines()
    assert "| adagq-auto | 1 of 1 | 30.0 | 30 | 2.0 | 2.0 | 3.00 times | 33.0 | +10% |" in lines


def test_a_run_that_missed_the_target_is_counted_as_missed(netbench: dict[str, ModuleType], tmp_path: Path) -> None:
    rounds = [{"round": 60, "seconds": 500.0, "accuracy": 0.89}]
    netbench["run"].write(tmp_path / "slow" / "measured-flower-fedavg-1.json", {"rounds": rounds})
    rounds = [{"round": 9, "seconds": 100.0, "accuracy": 0.91}]
    netbench["run"].write(tmp_path / "slow" / "measured-topk-1.json", {"rounds": rounds})
    lines = netbench["table"].table(tmp_path).splitlines()
    assert any(line.startswith("| flower-fedavg | 0 of 1 |  | > 500 |") for line in lines)
    assert any(line.startswith("| topk | 1 of 1 | 100.0 | 100 |") and "> 5.00 times" in line for line in lines)
    assert any(line.startswith("| topk | 0 of 1 |  | > 100 |") for line in lines), "the second target was not reached"
