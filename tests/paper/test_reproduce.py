"""`adagq reproduce`: every table and figure at the smallest scale, and what a user's mistake says."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import adagq.paper
from adagq.cli import app
from adagq.core.errors import ConfigError
from adagq.paper.reproduce import Reproduction, directories, load, note_origin, reproduce

EXPERIMENTS = Path(adagq.paper.__file__).parent / "experiments"
CELLS = sorted(path.stem for path in EXPERIMENTS.glob("*.toml") if path.stem not in ("exhibits", "numbers", "fashion"))


def plan(*names: str, scale: str = "smoke", **settings: int) -> Reproduction:
    return load(EXPERIMENTS, names, scale, settings)


def test_every_cell_belongs_to_an_exhibit() -> None:
    assert sorted(plan("all").experiments) == CELLS


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_every_cell_has_settings_at_every_scale(scale: str) -> None:
    cells = [cell for name, cell in plan("all", scale=scale).experiments.items() if not name.startswith("regime")]
    for cell in cells:
        assert cell.config.task.data in ("cifar10", "fashion-mnist")
        assert "ideal" in cell.config.methods
    sizes = {cell.config.task.width for cell in cells}
    assert sizes == ({16} if scale == "small" else {None})


def test_small_payloads_count_as_the_full_models() -> None:
    from adagq.learners.models import build_model

    for cell in plan("all", scale="small").experiments.values():
        task = cell.config.task
        if task.data == "digits":
            continue
        shape = (3, 32, 32) if task.data == "cifar10" else (1, 28, 28)
        small, full = (
            sum(p.numel() for p in build_model(task.model, shape, 10, width, stem).parameters())
            for width, stem in ((task.width, task.stem), (None, None))
        )
        assert cell.config.payload_scale == pytest.approx(full / small, rel=1e-3), cell.name


def test_fleets_share_the_training(tmp_path: Path) -> None:
    chosen = plan("table3")
    assert len({cell.training for cell in chosen.experiments.values()}) == 1
    steps = list(reproduce(chosen, tmp_path))
    accuracies = {
        cell: [step.row["accuracy"] for step in steps if (step.cell, step.method.name) == (cell, "qsgd")]
        for cell in chosen.experiments
    }
    first, *others = accuracies.values()
    assert all(other == first for other in others)
    seconds = {step.cell: step.row["seconds"] for step in steps if step.method.name == "qsgd"}
    assert seconds["table3-sigma_r-2"] < seconds["table3-sigma_r-6"]


def test_an_interrupted_reproduction_continues_to_the_same_rows(tmp_path: Path) -> None:
    chosen = plan("fig3", "table3")
    list(reproduce(chosen, tmp_path / "whole"))
    for count, _ in enumerate(reproduce(chosen, tmp_path / "cut")):
        if count == 30:
            break
    list(reproduce(chosen, tmp_path / "cut", resume=True))
    for cell in chosen.experiments:
        whole, cut = ((tmp_path / way / cell / "rows.jsonl").read_bytes() for way in ("whole", "cut"))
        assert whole == cut, cell
    assert set(directories(chosen.exhibits["table3"], tmp_path / "cut")) == {"2", "4", "6"}


def test_complete_cells_need_no_checkpoint_and_are_left_alone(tmp_path: Path) -> None:
    chosen = plan("fig3")
    list(reproduce(chosen, tmp_path))
    (tmp_path / "fig3" / "checkpoint.npz").unlink()  # as in results that were committed
    rows = (tmp_path / "fig3" / "rows.jsonl").read_bytes()
    assert list(reproduce(chosen, tmp_path, resume=True)) == []
    assert (
        chosen.runs_left(tmp_path),
        plan("fig3", seeds=chosen.experiments["fig3"].config.seeds + 1).runs_left(tmp_path),
    ) == (
        0,
        len(chosen.experiments["fig3"].config.methods),
    )
    assert (tmp_path / "fig3" / "rows.jsonl").read_bytes() == rows


def test_every_table_and_figure_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXPERIMENTS.parent)
    out = tmp_path / "smoke"
    done = CliRunner().invoke(app, ["reproduce", "all", "--scale", "smoke", "--out", str(out), "--workers", "1"])
    assert done.exit_code == 0, done.output
    for exhibit, kinds in {"table1": "md json", "table2": "md json", "table3": "md json", "ablation": "md json",
                           "fig2": "md json svg png", "fig3": "md json svg png", "fig6": "md json svg png",
                           "fig7": "md json svg png", "regimes": "md json svg png"}.items():  # fmt: skip
        for kind in kinds.split():
            assert (out / f"{exhibit}.{kind}").stat().st_size > 200, exhibit
    assert "adagq-fit" in (out / "table1.md").read_text()
    assert json.loads((out / "origin.jsonl").read_text())["cells"]
    again = CliRunner().invoke(app, ["reproduce", "table1", "--scale", "smoke", "--out", str(out)])
    assert again.exit_code != 0  # nothing is overwritten
    assert "--resume" in str(again.exception)


def test_origins_name_the_commit_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = shutil.which("git") and (EXPERIMENTS.parents[3] / ".git").exists()
    note_origin(tmp_path, ["adagq", "reproduce", "fig3"], ["fig3"])
    monkeypatch.setenv("PATH", str(tmp_path))  # a machine without git
    note_origin(tmp_path, ["adagq", "reproduce", "fig2"], ["fig2"])
    note_origin(tmp_path / "nothing ran", ["adagq"], [])
    with_git, without = (json.loads(line) for line in (tmp_path / "origin.jsonl").read_text().splitlines())
    assert re.fullmatch("[0-9a-f]{40}(-dirty)?", with_git["commit"]) if checkout else with_git["commit"] is None
    assert (without["commit"], without["command"]) == (None, "adagq reproduce fig2")
    assert not (tmp_path / "nothing ran").exists()


def test_more_seeds_on_request() -> None:
    assert {cell.config.seeds for cell in plan("all", seeds=5).experiments.values()} == {5}


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown exhibit 'tabel1': did you mean 'table1'"):
        plan("tabel1")
    with pytest.raises(ConfigError, match="unknown scale 'tiny'; known: medium, paper, small, smoke"):
        plan("table1", scale="tiny")
    with pytest.raises(ConfigError, match=r"no exhibits\.toml there"):
        load(tmp_path, ["all"], "smoke")


def test_numbers_are_of_known_exhibits() -> None:
    chosen = plan("all")
    assert set(chosen.numbers) <= set(chosen.exhibits), json.dumps(list(chosen.numbers))
