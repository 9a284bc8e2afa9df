"""`adagq leaderboard`: what its settings ask for, and a board that is interrupted, grows and is shown again."""

from pathlib import Path

import pytest

from adagq.benchmarks.leaderboard import RUNS, left, load, play, records, sweep
from adagq.benchmarks.standings import BEGIN, END, page_of, standings, surely_faster, table_of, write_page
from adagq.core.errors import ConfigError
from adagq.core.jsonl import read_lines
from adagq.experiments.config import load_config
from adagq.methods.table import METHODS
from command import adagq

SMALL = {
    "task": {"clients": 3, "width": 24, "samples_per_client": 40, "test_samples": 100},
    "training": {"max_rounds": 2, "target": 0.01},
}
ROOT = Path(__file__).parents[2]


def test_the_board_has_four_fleets_two_optimizers_and_rows_that_exist() -> None:
    entries = load()
    assert {entry.fleet for entry in entries} == {"paper", "slower-10", "slower-100", "failing"}
    assert {entry.optimizer for entry in entries} == {"plain", "nesterov"}
    named = {entry.method.name for entry in entries}
    assert {"ideal", "adagq-fit", "fedbuff", "fedasync", "eden", "signsgd-vote", "powersgd", "cmfl"} <= named
    assert {entry.seed for entry in entries} == {1, 2, 3, 4, 5}  # seed 0 chose the knobs
    ablations = {name for name in METHODS if name.startswith(("adagq-", "topk-plain", "norm-only"))}
    published = {name for name in METHODS if f"{name}-tuned" in METHODS}
    assert set(METHODS) - ablations - published <= named
    assert {f"{name}-tuned" for name in published} <= named


def test_fashion_mnist_is_the_boards_second_task() -> None:
    entries = load(["fashion"])
    assert {entry.seed for entry in entries} == {1, 2, 3}
    assert {entry.config.task.data for entry in entries} == {"fashion-mnist"}
    assert {entry.config.training.target for entry in entries} == {0.8}


def test_an_unknown_fleet_task_or_row_is_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'slower-10'"):
        load(fleets=["slower"])
    with pytest.raises(ConfigError, match="unknown task 'digit'"):
        load(["digit"])
    with pytest.raises(ConfigError, match="fedbuf"):
        load(fleets=["paper"], methods=["fedbuf"])


def test_the_sweep_gives_every_row_of_the_board_the_same_number_of_settings() -> None:
    entries = sweep(ROOT / "benchmarks" / "rivals_sweep.toml")
    assert {entry.seed for entry in entries} == {0}
    names = {entry.method.name for entry in load()} - {"ideal"}
    halves = {name for name in names if name.endswith("+half")}
    assert halves <= set(load_config(ROOT / "benchmarks" / "half_epoch_sweep.toml").methods)
    bases = {name.removesuffix("-tuned"): [] for name in names - halves}
    for entry in entries:
        base = max((name for name in bases if entry.method.name.startswith(name + "-")), key=len)
        bases[base].append(entry.method.name)
    assert {name: len(settings) for name, settings in bases.items()} == {
        name: 5 if name in ("dgc", "signsgd-vote") else 4 for name in bases
    }


def test_a_board_goes_on_where_it_stopped_takes_more_rows_and_runs_changed_ones_again(tmp_path: Path) -> None:
    def few(*names: str, **given: object) -> list:
        return load(["digits"], ["paper", "slower-10"], names, ["plain"], 1, SMALL | given)

    entries = few("eden")
    assert len(left(entries, tmp_path)) == 4
    next(play(entries, tmp_path))  # left in the middle
    list(play(entries, tmp_path))
    assert left(entries, tmp_path) == []
    assert list(play(entries, tmp_path)) == []
    grown = few("eden", "fedbuff")
    assert {step.method.name for step in play(grown, tmp_path)} == {"fedbuff"}
    lines = table_of(standings(records(tmp_path, grown))["digits", "paper"])
    assert {line.split(" | ")[1] for line in lines[2:]} == {"`eden`", "`fedbuff`", "`ideal`"}
    assert lines[-1].startswith("| – | `ideal`")
    changed = few("eden", training={"max_rounds": 2, "target": 0.02})
    assert len(left(changed, tmp_path)) == 4
    assert records(tmp_path, changed) == []


def test_fleets_that_differ_in_their_clocks_alone_share_bytes_and_accuracy(tmp_path: Path) -> None:
    entries = load(["digits"], ["paper", "slower-100"], ["stc"], ["nesterov"], 1, SMALL)
    list(play(entries, tmp_path))
    paper, slower = (one for one in read_lines(tmp_path / RUNS) if one["method"] == "stc")
    assert paper["upload_bytes"] == slower["upload_bytes"] > 0
    assert paper["best_accuracy"] == slower["best_accuracy"]
    assert paper["seconds"] < slower["seconds"]
    assert paper["state_bytes"] > 0


def record(method: str, seed: int, seconds: float, reached: bool = True) -> dict:
    spent = dict.fromkeys(("rounds", "upload_bytes", "download_bytes", "state_bytes"), 1)
    return {
        "task": "digits", "fleet": "paper", "optimizer": "plain", "method": method, "seed": seed, "reached": reached,
        "seconds": seconds, "best_accuracy": 0.9 if reached else 0.5, **spent,
    }  # fmt: skip


def test_places_are_as_wide_as_the_seeds_leave_them() -> None:
    times = {"a": (10, 12, 9), "b": (10.5, 11, 9.5), "c": (20, 25, 19)}
    runs = [record(name, seed, t) for name, row in times.items() for seed, t in enumerate(row)]
    runs += [record("missed", seed, 5.0, reached=False) for seed in range(3)] + [record("ideal", 0, 1.0)]
    rows = standings(runs)["digits", "paper"]
    assert {row.method: (row.first, row.last) for row in rows} == {
        "a": (1, 2), "b": (1, 2), "c": (3, 3), "missed": (4, 4), "ideal": (0, 0),
    }  # fmt: skip
    assert [row.method for row in rows] == ["a", "b", "c", "missed", "ideal"]
    assert not surely_faster(rows[0], rows[1])


def test_a_page_is_drawn_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "methods.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    lines = page_of(standings([record("a", 1, 60.0), record("b", 1, 90.0)]), {"digits": 0.9})
    text = write_page(lines, page).read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| `a` | **1.0** |" in text
    assert "`b`" in text.split("#### digits, paper")[1]
    assert "`b`" not in "".join(page_of(standings([record("a", 1, 60.0), record("b", 1, 90.0)]), {}, most=1)[-3:])
    page.write_text(BEGIN, "utf-8")
    with pytest.raises(ConfigError, match="without"):
        write_page(lines, page)


def test_a_board_without_runs_says_so(tmp_path: Path) -> None:
    ended = adagq("leaderboard", "--show-only", "--out", str(tmp_path))
    assert ended.returncode != 0
    assert "no runs of these settings there" in ended.stderr
