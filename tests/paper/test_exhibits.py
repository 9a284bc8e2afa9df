"""The paper's exhibits: real small runs for what a user gets, made-up rows for what seldom happens."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import adagq.paper
from adagq.core.errors import ConfigError
from adagq.experiments.config import resolve
from adagq.experiments.runner import compared, run
from adagq.paper.cells import Cell, read_cell
from adagq.paper.claims import check_claims
from adagq.paper.exhibits import Exhibit, exhibit_table, show_exhibit, write_exhibit
from adagq.paper.tables import PRINTED_PER_PAYLOAD
from made_up import rows_and_ledger

EXPERIMENTS = Path(adagq.paper.__file__).parent / "experiments"
NUMBERS = tomllib.loads((EXPERIMENTS / "numbers.toml").read_text("utf-8"))
BASELINES = ("fedavg", "qsgd", "topk", "fedpaq")
TASKS = ("resnet18/cifar10", "resnet18/fashion-mnist", "googlenet/cifar10", "googlenet/fashion-mnist")


def small_run(out: Path, methods: Sequence[str], target: float = 0.3, **more: Any) -> Path:
    """Train for real: four clients, two seeds, at most three rounds of the synthetic task."""
    settings = {
        "seeds": 2,
        "methods": list(methods),
        "training": {"target": target, "max_rounds": 3, "learning_rate": 0.1},
        "task": {"data": "synthetic", "model": "mlp", "samples_per_client": 60, "clients": 4},
    }
    for _ in run(compared(resolve(settings | more)), out):
        pass
    return out


def made_up_run(out: Path, target: float = 0.85, max_rounds: int = 60, **more: Any) -> Path:
    rows, _ = rows_and_ledger(**more)
    out.mkdir(parents=True)
    (out / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (out / "config.toml").write_text(f"seeds = 3\n[training]\ntarget = {target}\nmax_rounds = {max_rounds}\n", "utf-8")
    return out


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("real") / "run", ["fedavg", "qsgd", "topk", "adagq", "adagq-fit"])


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_run(tmp_path_factory.mktemp("made_up") / "run", slow_learner="topk")


def written(exhibit: Exhibit, cells: Mapping[str, Path], out: Path) -> tuple[str, dict[str, Any]]:
    """Write an exhibit; return its page and its numbers."""
    paths = write_exhibit(exhibit, cells, NUMBERS.get(exhibit.name, {}), out)
    kinds = [".md", ".json"] if exhibit.kind == "table" else [".svg", ".png", ".md", ".json"]
    assert [path.name for path in paths] == [exhibit.name + kind for kind in kinds]
    assert all(path.stat().st_size > 0 for path in paths)
    return paths[-2].read_text("utf-8"), json.loads(paths[-1].read_text("utf-8"))


def entry_of(tree: Mapping[str, Any], cell: str, method: str) -> dict[str, Any]:
    (entry,) = [each for each in tree["entries"] if (each["cell"], each["method"]) == (cell, method)]
    return entry


TABLE = Exhibit("table1", "table", "Table I", "sigma_d")


def test_a_table_has_ours_beside_the_papers(real: Path, tmp_path: Path) -> None:
    page, tree = written(TABLE, {"0.5": real}, tmp_path)
    entry = entry_of(tree, "0.5", "adagq")
    printed = NUMBERS["table1"]["cells"]["0.5"]["adagq"]
    assert entry["rounds"]["paper"] == printed["rounds"]
    assert entry["gigabits"]["paper"] == pytest.approx(printed["gigabits"] / PRINTED_PER_PAYLOAD)
    assert entry["seconds"]["paper_std"] == printed["seconds_std"]
    assert entry["seconds"]["ratio"] == pytest.approx(entry["seconds"]["mean"] / printed["seconds"])
    assert entry["speedup"]["paper"] == pytest.approx(2359.41 / 1129.60)
    assert entry["saved_vs_best"]["paper_rival"] == "topk"
    summary = read_cell("0.5", real).summary
    assert summary is not None
    assert entry["gigabits"]["mean"] == pytest.approx(8e-9 * summary["methods"]["adagq"]["upload_bytes"]["mean"])
    assert entry["tax"] == summary["methods"]["adagq"]["tax"]
    assert entry_of(tree, "0.5", "adagq-fit")["rounds"]["paper"] is None
    assert "| 0.5 | fedavg |" in page
    assert "(the paper: 85 %)" in page


def test_cells_and_methods_that_have_not_run_say_so(real: Path, tmp_path: Path) -> None:
    page, tree = written(TABLE, {"0.5": real, "0.8": tmp_path / "nowhere"}, tmp_path)
    for cell, method in (("0.2", "adagq"), ("0.8", "fedavg"), ("0.5", "fedpaq")):
        entry = entry_of(tree, cell, method)
        assert entry["status"] == "not run"
        assert entry["seconds"]["paper"] == NUMBERS["table1"]["cells"][cell][method]["seconds"]
    assert "- 0.2: not run" in page


def test_a_missed_target_is_marked_with_the_accuracy_reached(made_up: Path, tmp_path: Path) -> None:
    page, tree = written(TABLE, {"0.5": made_up}, tmp_path)
    entry = entry_of(tree, "0.5", "topk")
    assert entry["status"] == "missed"
    assert entry["best_accuracy"]["mean"] < 0.75
    assert entry["rounds"] == {"mean": 60.0, "std": 0.0, "paper": 45.75, "ratio": None}
    assert entry["speedup"]["ours"] is None
    assert "missed 85 %: got to 69.62 %" in page
    assert "| > 60.0<br>45.8 |" in page


def test_time_saved_is_against_the_fastest_baseline_that_reached_the_target(made_up: Path, tmp_path: Path) -> None:
    _, tree = written(TABLE, {"0.5": made_up}, tmp_path)
    entries = {method: entry_of(tree, "0.5", method) for method in (*BASELINES, "adagq", "adagq-fit")}
    times = {method: entries[method]["seconds"]["mean"] for method in BASELINES if method != "topk"}
    best = min(times, key=times.__getitem__)
    saved = entries["adagq"]["saved_vs_best"]
    assert saved["rival"] == best
    assert saved["ours"] == pytest.approx(1 - entries["adagq"]["seconds"]["mean"] / times[best])
    assert entries[best]["saved_vs_best"]["ours"] is None
    assert entries["adagq-fit"]["speedup"]["ours"] == pytest.approx(
        times["fedavg"] / entries["adagq-fit"]["seconds"]["mean"]
    )


def test_a_run_under_way_shows_the_seeds_that_all_methods_finished(made_up: Path, tmp_path: Path) -> None:
    lines = (made_up / "rows.jsonl").read_text("utf-8").splitlines(keepends=True)
    by_seed = sorted(lines, key=lambda line: json.loads(line)["seed"])
    half = tmp_path / "half"
    half.mkdir()
    (half / "config.toml").write_bytes((made_up / "config.toml").read_bytes())

    def with_rows(count: int) -> dict[str, Any]:
        (half / "rows.jsonl").write_text("".join(by_seed[:count]), "utf-8")
        return written(TABLE, {"0.5": half}, tmp_path)[1]

    one_seed = len(lines) // 3
    entry = entry_of(with_rows(one_seed + 150), "0.5", "fedavg")
    assert (entry["seeds"], entry["note"]) == (1, "1 of 3 seeds are finished")
    tree = with_rows(61)
    assert entry_of(tree, "0.5", "fedavg")["seeds"] == 1
    assert entry_of(tree, "0.5", "adagq")["status"] == "not run"
    tree = with_rows(3)
    assert entry_of(tree, "0.5", "fedavg")["note"] == "not run: no method is finished"


def test_a_damaged_cell_does_not_take_the_exhibit_down(made_up: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "rows.jsonl").write_text("no JSON\n" * 3, "utf-8")
    page, tree = written(TABLE, {"0.2": bad, "0.5": made_up}, tmp_path)
    assert "cannot be read" in entry_of(tree, "0.2", "adagq")["note"]
    assert "- 0.2: cannot be read" in page
    assert entry_of(tree, "0.5", "adagq")["status"] == "reached"


def test_what_the_paper_says_stands_beside_what_was_measured(made_up: Path, tmp_path: Path) -> None:
    page, tree = written(TABLE, {"0.5": made_up, "0.8": made_up}, tmp_path)
    claims = {(claim["says"][:20], claim["cell"]): claim for claim in tree["claims"]}
    assert claims["AdaGQ needs the leas", "0.5"]["holds"] is True
    assert claims["AdaGQ needs the leas", "0.2"]["holds"] is None
    assert claims["AdaGQ needs the leas", "0.2"]["ours"] == "not run"
    assert claims["… and takes 28.8 % l", "0.8"]["ours"].startswith("topk missed the target")
    assert claims["FedPAQ trains the mo", "0.5"]["holds"] is False  # topk needed longer than it was given
    assert "## What the paper says" in page


def test_figures_2_and_3_from_variants(tmp_path: Path) -> None:
    two = small_run(
        tmp_path / "two",
        ["two-bit", "qsgd", "norm-only"],
        target=1.0,
        variants={"two-bit": {"base": "qsgd", "uplink": {"levels": 3}}},
    )
    page, tree = written(Exhibit("fig2", "norms_and_accuracy", "Figure 2"), {"fig2": two}, tmp_path)
    assert len(tree["cells"]["fig2"]["methods"]["two-bit"]["norm"]["mean"]) == 3
    assert tree["cells"]["fig2"]["methods"]["qsgd"]["accuracy"]["round"] == [1, 2, 3]
    assert "![Figure 2](fig2.svg)" in page
    assert [claim["cell"] for claim in tree["claims"]] == ["fig2"] * 3
    slow = {
        f"slow-{bits}-bit": {"base": "six-bit", "controller": {"kind": "fixed", "by_client": {"3": 2**bits - 1}}}
        for bits in (2, 3, 4, 5)
    }
    variants = {"six-bit": {"base": "qsgd", "uplink": {"levels": 63}}} | slow
    three = small_run(tmp_path / "three", list(variants), variants=variants, seeds=1)
    page, tree = written(Exhibit("fig3", "bits_for_the_slow", "Figure 3"), {"fig3": three}, tmp_path)
    assert set(tree["cells"]["fig3"]["methods"]) == {*variants, "ideal"}
    assert tree["claims"][0]["paper"] == "51.0 rounds"
    assert "| fig3 | six-bit |" in page


@pytest.mark.parametrize(("name", "kind"), [("fig6", "curves"), ("fig7", "split")])
def test_figures_6_and_7_have_a_panel_per_task(name: str, kind: Any, real: Path, made_up: Path, tmp_path: Path) -> None:
    cells = {TASKS[0]: real, TASKS[2]: made_up}
    page, tree = written(Exhibit(name, kind, "A figure", "task"), cells, tmp_path)
    assert tuple(tree["cells"]) == TASKS
    assert tree["cells"][TASKS[1]] == {"absent": "not run"}
    picture = (tmp_path / f"{name}.svg").read_text("utf-8")
    assert "GoogLeNet on CIFAR-10" in picture
    assert picture.count(">not run<") == 2
    assert page.count("not run") >= 4


def test_figure_7_splits_all_of_the_time(made_up: Path, tmp_path: Path) -> None:
    _, tree = written(Exhibit("fig7", "split", "Figure 7", "task"), {TASKS[0]: made_up}, tmp_path)
    for numbers in tree["cells"][TASKS[0]]["methods"].values():
        parts = [numbers[part] for part in ("computation", "communication", "waiting and server")]
        assert sum(parts) == pytest.approx(numbers["total_seconds"]["mean"])


def test_exhibits_with_no_run_at_all_are_drawn(tmp_path: Path) -> None:
    for name, row in tomllib.loads((EXPERIMENTS / "exhibits.toml").read_text("utf-8")).items():
        console = Console(width=100, record=True, quiet=True)
        paths = show_exhibit(name, row, {}, NUMBERS.get(name, {}), tmp_path, console)
        assert "not run" in next(path for path in paths if path.suffix == ".md").read_text("utf-8")


def test_an_exhibit_without_numbers_of_the_paper_shows_ours(real: Path, tmp_path: Path) -> None:
    exhibit = Exhibit("ablation", "table", "Ablation", "sigma_d")
    page, tree = written(exhibit, {"0.5": real}, tmp_path)
    methods = [entry["method"] for entry in tree["entries"]]
    assert methods == ["fedavg", "qsgd", "topk", "adagq", "adagq-fit", "ideal"]
    assert "What the paper says" not in page
    console = Console(width=100, record=True)
    console.print(exhibit_table(exhibit, {"0.5": real}, {}))
    assert "adagq-fit" in console.export_text()


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ConfigError, match="kind = 'pie'"):
        Exhibit("fig9", "pie", "Figure 9")  # type: ignore[arg-type]
    numbers = {"cells": {"a": {}}, "claims": [{"says": "so", "kind": "maybe"}]}
    with pytest.raises(ConfigError, match="kind = 'maybe'; known: value"):
        exhibit_table(Exhibit("fig9", "curves", "Figure 9"), {}, numbers)


def test_the_papers_numbers_agree_with_its_text() -> None:
    """Shares that the text names follow from the tables as they were copied."""

    def saved(table: str, cell: str, rival: str) -> float:
        row = NUMBERS[table]["cells"][cell]
        return 1 - row["adagq"]["seconds"] / row[rival]["seconds"]

    assert saved("table1", "0.8", "topk") == pytest.approx(0.288, abs=5e-4)
    assert saved("table1", "0.5", "fedavg") == pytest.approx(0.521, abs=5e-4)
    assert saved("table3", "2", "topk") == pytest.approx(0.259, abs=5e-4)
    assert saved("table3", "6", "topk") == pytest.approx(0.388, abs=5e-4)
    for table in ("table1", "table2", "table3"):
        assert len(NUMBERS[table]["cells"]) == 3
        for row in NUMBERS[table]["cells"].values():
            assert list(row) == [*BASELINES, "adagq"]
            assert all(set(one) == {"rounds", "gigabits", "seconds", "seconds_std"} for one in row.values())


@pytest.mark.parametrize(("seconds", "holds"), [(90.0, None), (110.0, False)])
def test_who_reaches_the_target_with_fewer_seeds_is_not_called_faster(seconds: float, holds: bool | None) -> None:
    def record(*times: float | None) -> dict[str, Any]:
        per_seed = {str(seed): {"reached": time is not None, "seconds": time} for seed, time in enumerate(times)}
        return {"reached": sum(time is not None for time in times) / len(times), "per_seed": per_seed}

    methods = {"adagq": record(seconds, None), "qsgd": record(100.0, 200.0)}
    claim = {"says": "", "kind": "less", "quantity": "seconds", "method": "adagq", "rivals": ["qsgd"]}
    [found] = check_claims([claim], {"0.8": Cell("0.8", summary={"methods": methods})})
    assert found.holds is holds


def test_ratios_add_up_by_seed_whatever_the_order_of_a_set() -> None:
    seconds = {"0": 1e16, "1": 1.0, "2": -1e16}  # another order gives another sum
    one = {seed: {"reached": True, "seconds": 1.0} for seed in seconds}
    own = {seed: {"reached": True, "seconds": value} for seed, value in seconds.items()}
    cell = Cell("0.5", summary={"methods": {"a": {"per_seed": own}, "b": {"per_seed": one}}})
    assert cell.ratio("a", "b") == sum(seconds.values()) / 3
