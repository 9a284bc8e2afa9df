"""Runs that take turns: from milestone to milestone, resumed to the same rows, shown as far as they are."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import adagq.paper
from adagq.cli import app
from adagq.core.errors import CheckpointError, ConfigError
from adagq.experiments.config import Config, resolve
from adagq.experiments.runner import run
from adagq.paper.cells import read_cell
from adagq.paper.exhibits import Exhibit, write_exhibit
from adagq.paper.milestones import read_progress
from adagq.paper.reproduce import load
from adagq.paper.turns import run_in_turns, run_place, turns

EXPERIMENTS = Path(adagq.paper.__file__).parent / "experiments"
MILESTONES = (0.3, 0.5)
METHODS = ("qsgd", "topk")


def settings(**more: Any) -> Config:
    tree = {
        "methods": list(METHODS),
        "training": {"target": 0.7, "max_rounds": 12, "learning_rate": 0.1},
        "task": {"data": "synthetic", "model": "mlp", "samples_per_client": 60, "clients": 4},
    }
    return resolve(tree | more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cell = tmp_path_factory.mktemp("turns") / "cell"
    list(run_in_turns(settings(), MILESTONES, cell))
    return cell


def test_the_order_is_seeds_then_blocks_then_milestones_then_methods() -> None:
    config = settings(methods=["qsgd", "qsgd+nesterov", "topk"], seeds=2)
    order = list(turns(config, [0.5, 0.9]))  # a milestone above the target is none
    assert order[:6] == [
        *[("qsgd", 0, 0.5), ("topk", 0, 0.5), ("qsgd", 0, 0.7), ("topk", 0, 0.7)],
        *[("qsgd+nesterov", 0, 0.5), ("qsgd+nesterov", 0, 0.7)],
    ]
    assert [(name, seed, goal) for name, seed, goal in order if seed == 1] == [(n, 1, g) for n, _, g in order[:6]]


def test_taking_turns_changes_no_row(whole: Path, tmp_path: Path) -> None:
    list(run(settings(), tmp_path / "at-once"))
    assert (whole / "rows.jsonl").read_bytes() == (tmp_path / "at-once" / "rows.jsonl").read_bytes()
    assert (whole / "config.toml").read_bytes() == (tmp_path / "at-once" / "config.toml").read_bytes()
    assert not list(whole.rglob("checkpoint.npz"))  # all runs are at their end


def test_one_method_goes_to_its_end_alone_and_changes_no_row(whole: Path, tmp_path: Path) -> None:
    first = list(run_in_turns(settings(), MILESTONES, tmp_path, only=["topk"]))
    assert {step.row["method"] for step in first} == {"topk"}
    assert (tmp_path / "config.toml").read_bytes() == (whole / "config.toml").read_bytes()
    list(run_in_turns(settings(), MILESTONES, tmp_path, resume=True))
    assert (tmp_path / "rows.jsonl").read_bytes() == (whole / "rows.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("scale", "name", "said"), [("medium", "topkk", "did you mean 'topk'"), ("smoke", "topk", "do not take turns")]
)
def test_methods_that_cannot_be_run_alone_are_refused(scale: str, name: str, said: str, tmp_path: Path) -> None:
    called = CliRunner().invoke(app, ["reproduce", "fig6", "--scale", scale, "--methods", name, "--out", str(tmp_path)])
    assert isinstance(called.exception, ConfigError)
    assert said in str(called.exception)


def test_methods_take_turns_and_a_stopped_cell_goes_on(whole: Path, tmp_path: Path) -> None:
    steps = run_in_turns(settings(), MILESTONES, tmp_path)
    order = [next(steps).method.name]
    while order[-1] == "qsgd":
        order.append(next(steps).method.name)
    steps.close()  # type: ignore[attr-defined]
    assert json.loads((tmp_path / "rows.jsonl").read_text().splitlines()[len(order) - 2])["accuracy"] >= MILESTONES[0]
    assert (run_place(tmp_path, "qsgd", 0) / "checkpoint.npz").is_file()
    with pytest.raises(CheckpointError, match="--resume"):
        next(run_in_turns(settings(), MILESTONES, tmp_path))
    list(run_in_turns(settings(), MILESTONES, tmp_path, resume=True))
    assert (tmp_path / "rows.jsonl").read_bytes() == (whole / "rows.jsonl").read_bytes()


def test_a_run_without_its_checkpoint_begins_anew(whole: Path, tmp_path: Path) -> None:
    steps = run_in_turns(settings(), MILESTONES, tmp_path)
    next(steps), next(steps)
    steps.close()  # type: ignore[attr-defined]
    for checkpoint in tmp_path.rglob("checkpoint.npz"):
        checkpoint.unlink()  # as where only rows were committed
    list(run_in_turns(settings(), MILESTONES, tmp_path, resume=True))
    assert (tmp_path / "rows.jsonl").read_bytes() == (whole / "rows.jsonl").read_bytes()


def test_a_cell_under_way_is_read_at_the_milestone_that_most_have_reached(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole / "config.toml", tmp_path)
    rows = [json.loads(line) for line in (whole / "rows.jsonl").read_text().splitlines()]
    first = {m: next(r["round"] for r in rows if r["method"] == m and r["accuracy"] >= MILESTONES[0]) for m in METHODS}
    cut = [row for row in rows if row["method"] == "qsgd" or row["round"] <= first["topk"]]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in cut))
    cell = read_cell("a", tmp_path, MILESTONES)
    assert cell.summary is not None
    assert cell.summary["run"]["target"] == max(goal for goal in MILESTONES if goal <= cut[-1]["accuracy"])
    assert set(cell.summary["methods"]) == set(METHODS)
    at_once = read_cell("a", tmp_path)  # without milestones only who is at its end counts
    assert at_once.record("topk") is None
    qsgd, topk, ideal = read_progress("a", tmp_path, MILESTONES)
    assert ideal.so_far == "not begun"
    assert [reached.target for reached in qsgd.reached] == [*MILESTONES, 0.7]
    assert topk.reached[0].rounds == first["topk"]
    assert topk.reached[-1].text == "not yet"
    assert topk.rounds == (first["topk"],)


def test_a_method_under_way_is_drawn_as_such(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole / "config.toml", tmp_path)
    rows = [json.loads(line) for line in (whole / "rows.jsonl").read_text().splitlines()]
    first = next(row["round"] for row in rows if row["method"] == "topk" and row["accuracy"] >= MILESTONES[0])
    cut = [row for row in rows if row["method"] == "qsgd" or row["round"] < first]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in cut))
    exhibit = Exhibit("fig6", "curves", "Figure 6", "task", ("a",), {"a": MILESTONES})
    write_exhibit(exhibit, {"a": tmp_path}, {}, tmp_path / "out")
    assert "topk, under way" in (tmp_path / "out" / "fig6.svg").read_text()
    assert "| a | topk" not in (tmp_path / "out" / "fig6.md").read_text()


def test_the_medium_scale_counts_as_the_full_model() -> None:
    from adagq.learners.models import build_model

    plan = load(EXPERIMENTS, ["fig6"], "medium")
    assert plan.milestones("fig6").keys() == plan.exhibits["fig6"]["cells"].keys()
    for cell in plan.experiments.values():
        config = cell.config
        assert config.task.samples_per_client is None  # all images
        assert (config.task.batch_size, config.training.decay) == (32, 0.995)
        shape = (3, 32, 32) if config.task.data == "cifar10" else (1, 28, 28)
        small, full = (
            sum(p.numel() for p in build_model(config.task.model, shape, 10, width, stem).parameters())
            for width, stem in ((config.task.width, config.task.stem), (None, None))
        )
        assert config.payload_scale == pytest.approx(full / small, rel=1e-3), cell.name


def test_a_scale_shows_the_cells_that_it_has(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'medium' has no cell of fig3"):
        load(EXPERIMENTS, ["fig3"], "medium")
    command = ["reproduce", "fig6", "--scale", "medium", "--show-only", "--out", str(tmp_path)]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "googlenet" not in (tmp_path / "fig6.md").read_text()
