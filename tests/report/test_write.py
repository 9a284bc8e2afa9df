"""write_report and its neighbours: which files appear, and what happens to damaged or partial runs."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adagq.core.errors import CheckpointError, ConfigError
from adagq.report import plan_heatmap, write_report, write_tensorboard
from adagq.report.run import load
from adagq.report.series import BINS, CLIENTS, heat_maps, round_timelines
from made_up import rows_and_ledger, write_run

Lines = list[dict[str, Any]]
FIGURES = ("accuracy", "time_split", "bytes", "levels", "timeline")


def test_all_files_of_a_run(run_dir: Path) -> None:
    page = write_report(run_dir)
    assert page == run_dir / "report.html"
    for name in FIGURES:
        assert (run_dir / "figures" / f"{name}.svg").stat().st_size > 2000
        assert (run_dir / "figures" / f"{name}.png").stat().st_size > 5000
        assert "payload_scale = 15.9" in (run_dir / "figures" / f"{name}.svg").read_text()
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["run"]["task"] == "digits, mlp, sigma_d 0.5"
    assert summary["run"]["fleet"] == "uplink 5–20 Mbit/s, downlink 70 Mbit/s, 14–17 s per epoch"
    assert not list(run_dir.rglob(".*"))  # no drafts left


def test_the_page_says_things_once_and_in_order(run_dir: Path, tmp_path: Path) -> None:
    page = write_report(run_dir, figures=False).read_text()
    body = page.partition("<body>")[2].partition("<script")[0].partition("config.toml</summary>")[0]
    visible = re.sub(r"href=\"[^\"]+\"", "", body)
    assert visible.count("payload_scale") == 1
    assert "<b>Seeds</b> 0, 1, 2" in page
    order = re.findall(r'<th scope="row"><i[^>]*></i>([\w-]+)', page)
    assert order[0] == "adagq-fit"
    assert order[-2:] == ["topk", "ideal"]  # missed, and the reference
    assert "time over that of the same fleet with free links" in page
    one = write_run(tmp_path / "one", *rows_and_ledger(("fedavg", "ideal"), seeds=1, rounds=40))
    assert "<b>Seed</b> 0<" in write_report(one, figures=False).read_text()


def test_rebuilding_gives_the_same_bytes(run_dir: Path) -> None:
    def everything() -> dict[str, bytes]:
        write_report(run_dir)
        return {str(path): path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}

    assert everything() == everything()


def test_page_is_self_contained(run_dir: Path) -> None:
    text = write_report(run_dir, figures=False).read_text()
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", text)
    assert not re.findall(r"url\((?!#)|@import", text)
    assert set(re.findall(r"https?://[^\s\"']+", text)) <= {"http://www.w3.org/2000/svg"}


def test_page_of_a_large_run_stays_small(tmp_path: Path) -> None:
    run = write_run(tmp_path, *rows_and_ledger(rounds=300))
    assert write_report(run, figures=False).stat().st_size < 1_500_000


def test_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    rows, ledger = rows_and_ledger(("qsgd",), seeds=1, rounds=5)
    evil = "</script><script>alert(1)</script>"
    for line in (*rows, *ledger):
        line["method"] = evil
    assert evil not in write_report(write_run(tmp_path, rows, ledger), figures=False).read_text()


def test_many_clients_and_rounds_are_thinned(tmp_path: Path) -> None:
    run = load(write_run(tmp_path, *rows_and_ledger(("adagq-fit",), seeds=1, rounds=250, clients=90)))
    heat = heat_maps(run)["adagq-fit"]
    assert heat.values["levels"].shape == (CLIENTS, BINS)
    assert np.isfinite(heat.values["levels"]).all()
    assert [line.seconds.shape for line in round_timelines(run, 0.85)["adagq-fit"]] == [(CLIENTS, 4)] * 3


def test_clients_are_ordered_from_the_slowest_uplink(run_dir: Path) -> None:
    run = load(run_dir)
    first = heat_maps(run)["fedavg"].clients
    table = run.ledger["fedavg"]
    seconds = {int(client): value for client, value in zip(table["client"], table["upload_seconds"], strict=True)}
    assert first == [f"client {client}" for client in sorted(seconds, key=lambda client: -seconds[client])]


def test_partial_participation_leaves_gaps(tmp_path: Path) -> None:
    rows, ledger = rows_and_ledger(("adagq",), seeds=1, rounds=12)
    ledger = [line for line in ledger if (line["client"] + line["round"]) % 2]
    run_dir = write_run(tmp_path, rows, ledger)
    write_report(run_dir)
    assert np.isnan(heat_maps(load(run_dir))["adagq"].values["levels"]).mean() == pytest.approx(0.5)


def test_no_ledger_no_accuracy_no_config(tmp_path: Path) -> None:
    rows, _ = rows_and_ledger(("fedavg", "adagq-fit"), seeds=1, rounds=4)
    for line in rows:
        line["accuracy"] = None
    write_run(tmp_path, rows, [])
    (tmp_path / "ledger.jsonl").unlink()
    (tmp_path / "config.toml").unlink()
    assert "no round was evaluated" in write_report(tmp_path).read_text()
    assert "no round was evaluated" in write_report(tmp_path, target=0.5).read_text()


def test_a_run_without_a_target_is_measured_by_the_best_that_all_its_runs_reached(tmp_path: Path) -> None:
    """A Flower app's run directory is such a one."""
    rows, ledger = rows_and_ledger(("qsgd", "topk"), seeds=2, slow_learner="topk")
    rows = [row | {"clock": "measured"} for row in rows]
    run_dir = write_run(tmp_path, rows, ledger)
    (run_dir / "config.toml").write_text("seed = 0\n[training]\nmax_rounds = 10\n", "utf-8")
    best = {(row["method"], row["seed"]): 0.0 for row in rows}
    for row in rows:
        best[row["method"], row["seed"]] = max(best[row["method"], row["seed"]], row["accuracy"])
    page = write_report(run_dir, figures=False).read_text()
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["run"]["target"] == min(best.values())
    assert all(record["reached"] == 1 for record in summary["methods"].values())
    assert "No target was set" in page
    assert "<code>flwr run .</code>" in page
    later = [row | {"round": row["round"] + 60, "accuracy": 0.99, "seconds": row["seconds"] + 1e6} for row in rows]
    write_run(tmp_path, [*rows, *later], ledger)
    (run_dir / "config.toml").write_text("seed = 0\n", "utf-8")
    write_report(run_dir, figures=False)  # the run went on: its own best counts, not the one of the report before
    assert json.loads((run_dir / "summary.json").read_text())["run"]["target"] == 0.99
    assert "No target was set" not in write_report(run_dir, target=0.5, figures=False).read_text()
    write_report(run_dir, figures=False)
    assert json.loads((run_dir / "summary.json").read_text())["run"]["target"] == 0.5  # what was asked for stays


def test_torn_last_line_is_dropped_but_damage_is_not(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, *rows_and_ledger(("qsgd",), seeds=1, rounds=3))
    path = run_dir / "rows.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"method": "qs')
    assert len(load(run_dir).rows) == 3
    path.write_text('{"method": "qs\n' + whole)
    with pytest.raises(CheckpointError, match="line 1"):
        load(run_dir)
    path.write_text("")
    with pytest.raises(CheckpointError, match="no rows yet"):
        load(run_dir)
    path.write_text('{"method": "qsgd", "seed": 0}\n')
    with pytest.raises(CheckpointError, match="round"):
        load(run_dir)


def test_not_a_run_directory(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a run directory"):
        write_report(tmp_path)


def test_tensorboard(run_dir: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = write_tensorboard(run_dir)
    write_tensorboard(run_dir)  # a rebuild replaces
    events = EventAccumulator(str(folder / "adagq-fit" / "seed-1"), size_guidance={"tensors": 0}).Reload()
    accuracies = events.Tensors("training/accuracy")
    rows = [row for row in load(run_dir).rows if row["method"] == "adagq-fit" and row["seed"] == 1]
    assert [event.step for event in accuracies] == [row["round"] for row in rows]
    assert accuracies[-1].wall_time == pytest.approx(rows[-1]["seconds"])


def test_tensorboard_missing(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(ConfigError, match=r"adagq\[tensorboard\]"):
        write_tensorboard(run_dir)


@pytest.mark.parametrize(("size", "kind"), [(5, "svg"), (5, "png"), (30, "svg")])
def test_plan_heatmap(tmp_path: Path, size: int, kind: str) -> None:
    uplinks, computes = np.geomspace(1e6, 1e9, size), np.geomspace(1, 100, size + 1)
    saved = 0.9 - np.log10(uplinks[None, :] * computes[:, None]) / 10
    path = plan_heatmap(saved, uplinks.tolist(), computes.tolist(), tmp_path / f"map.{kind}", note="scaled")
    assert path.stat().st_size > 5000


def test_plan_heatmap_refuses_what_it_cannot_draw(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="grid"):
        plan_heatmap([[0.1, 0.2]], [1e6, 2e6], [1.0, 2.0], tmp_path / "map.svg")
    with pytest.raises(ConfigError, match="rising"):
        plan_heatmap([[0.1, 0.2]] * 2, [2e6, 1e6], [1.0, 2.0], tmp_path / "map.svg")
    with pytest.raises(ConfigError, match=r"\.svg"):
        plan_heatmap([[0.1, 0.2]] * 2, [1e6, 2e6], [1.0, 2.0], tmp_path / "map.gif")


def test_importing_the_report_leaves_matplotlib_alone() -> None:
    import subprocess

    code = "import sys, adagq.report; sys.exit('matplotlib' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
