"""`adagq leaderboard`: what its settings ask for, and a board that is interrupted, grows and is shown again."""

from pathlib import Path

import pytest

from adagq.benchmarks.leaderboard import left, load, play, standings, table_of, write_page
from adagq.core.errors import ConfigError
from adagq.methods.table import METHODS

SMALL = {
    "seeds": 1,
    "task": {"clients": 3, "width": 24, "samples_per_client": 40, "test_samples": 100},
    "training": {"max_rounds": 2, "target": 0.01},
}


def test_the_board_has_four_fleets_and_rows_that_exist() -> None:
    parts = load()
    assert list(dict.fromkeys(part.fleet for part in parts)) == ["paper", "slower-10", "slower-100", "failing"]
    named = {name for part in parts for name in part.config.methods}
    assert named <= set(METHODS)
    assert {"ideal", "adagq-fit", "fedbuff", "fedasync", "eden"} <= named
    assert {part.config.training.max_rounds for part in parts} == {120, 2400}
    assert all(part.config.seed == 1 for part in parts)  # seed 0 chose the knobs


def test_an_unknown_fleet_or_row_is_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'slower-10'"):
        load(fleets=["slower"])
    with pytest.raises(ConfigError, match="fedbuf"):
        load(fleets=["paper"], methods=["fedbuf"])


def test_a_board_goes_on_where_it_stopped_and_takes_more_rows(tmp_path: Path) -> None:
    parts = load(["paper"], ["eden"], SMALL)
    assert left(parts, tmp_path) == 2
    next(play(parts, tmp_path))  # left in the middle
    list(play(parts, tmp_path))
    assert left(parts, tmp_path) == 0
    assert list(play(parts, tmp_path)) == []
    more = load(["paper"], ["eden", "fedbuff", "fedasync"], {**SMALL, "training": {"target": 0.01}})
    assert [part.folder for part in more] == ["paper", "paper-2400"]
    grown = load(["paper"], ["eden", "fedbuff"], SMALL)
    assert {step.method.name for step in play(grown, tmp_path)} == {"fedbuff"}
    found = standings(grown, tmp_path)
    lines = table_of(found["paper"])
    assert {line.split(" | ")[1] for line in lines[2:]} == {"eden", "fedbuff", "ideal"}
    assert lines[-1].startswith("| – | ideal")
    page = write_page(found, tmp_path).read_text("utf-8")
    assert "## paper: until 1% accuracy, seeds 1" in page
