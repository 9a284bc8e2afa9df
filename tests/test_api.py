"""`adagq.compare` and `adagq.train` as a script uses them, and what their result offers."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import adagq
from adagq.experiments.config import load_config
from adagq.learners import TorchPopulation

SMALL: dict[str, Any] = {
    "training": {"target": 1.0, "max_rounds": 2},
    "task": {"clients": 3, "width": 24, "samples_per_client": 40, "test_samples": 100},
}


@pytest.fixture(scope="module")
def result() -> adagq.Result:
    rows: list[Any] = []
    found = adagq.compare(methods=["fedavg", "qsgd"], seeds=2, on_round=rows.append, **SMALL)
    assert rows == found.rows
    return found


def test_rows_ledger_and_summary_are_plain_values(result: adagq.Result) -> None:
    assert {(row["method"], row["seed"]) for row in result.rows} == {
        (method, seed) for method in ("fedavg", "qsgd", "ideal") for seed in (0, 1)
    }
    assert len(result.ledger) == 3 * len(result.rows)
    assert result.incidents == []
    assert set(result.summary["methods"]) == {"fedavg", "qsgd", "ideal"}
    assert result.summary["run"]["clients"] == 3
    assert result.diverged == {}
    assert repr(result).startswith("<adagq result of fedavg (2 seeds), qsgd (2 seeds), ideal (2 seeds) in ")


def test_pandas(result: adagq.Result) -> None:
    pytest.importorskip("pandas")
    assert len(result.rows.to_pandas()) == 12
    assert list(result.ledger.to_pandas().columns)[:4] == ["method", "seed", "round", "client"]
    frame = result.summary.to_pandas()
    assert list(frame.index) == list(result.summary["methods"])
    assert frame.loc["qsgd", "best_accuracy"] == result.summary["methods"]["qsgd"]["best_accuracy"]["mean"]
    assert "seconds_std" in frame.columns


def test_without_pandas_one_line_says_what_to_install(result: adagq.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(adagq.ConfigError, match=r'pandas is not installed: pip install "adagq\[pandas\]"'):
        result.rows.to_pandas()


def test_table_figure_page_and_notebook(result: adagq.Result, tmp_path: Path) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(result)
    assert "fedavg" in console.export_text()
    for over in ("time", "data", "rounds"):
        assert result.plot(tmp_path / f"{over}.svg", over=over).stat().st_size > 2000
    with pytest.raises(adagq.ConfigError, match="did you mean 'rounds'"):
        result.plot(tmp_path / "x.svg", over="round")
    page = result.report(tmp_path / "page.html")
    assert page == tmp_path / "page.html"
    assert "adagq report" in page.read_text("utf-8")
    shown = result._repr_html_()
    assert shown.count("<tr>") == 4
    assert "No method reached 100 % accuracy" in shown


def test_a_temporary_run_lives_as_long_as_its_result() -> None:
    found = adagq.train(method="topk", **SMALL)
    place = found.directory
    assert {row["method"] for row in found.rows} == {"topk"}
    assert place.is_dir()
    del found
    assert not place.exists()


def test_a_config_may_be_a_file_a_mapping_or_a_config(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(
        "method = 'qsgd'\n[training]\ntarget = 1.0\nmax_rounds = 2\n"
        "[task]\nclients = 3\nwidth = 24\nsamples_per_client = 40\ntest_samples = 100\n"
    )
    mapping = {"method": "qsgd", **SMALL}
    rows = [adagq.train(config).rows for config in (file, str(file), mapping, load_config(file))]
    assert rows[0]
    assert all(other == rows[0] for other in rows[1:])
    one = adagq.train(file, training={"max_rounds": 1}, out=tmp_path / "run")
    assert one.rows == rows[0][:1]
    with pytest.raises(adagq.CheckpointError, match="there already"):
        adagq.train(file, out=tmp_path / "run")


def test_a_population_of_ones_own(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def data(samples: int, seed: int) -> Any:
        x = torch.randn(samples, 6, generator=torch.Generator().manual_seed(seed))
        return x, x[:, :3].argmax(1)

    clients = [(data(40, seed), data(8, 100 + seed)) for seed in range(3)]
    own = TorchPopulation(lambda: torch.nn.Linear(6, 3), clients, test=data(50, 9))
    fleet = adagq.fleet.paper(clients=3, uplink_mbps=(0.001, 0.01))
    training = adagq.Training(max_rounds=2, target=1.0, learning_rate=0.1)
    found = adagq.compare(methods=["qsgd"], task=own, fleet=fleet, training=training, out=tmp_path / "run")
    assert len(found.rows) == 4
    assert found.summary["run"]["task"] == "own model and data"
    assert found.summary["run"]["payload_scale"] == 1
    assert found.rows[0]["upload_bytes"] < 3 * 200
    with pytest.raises(adagq.ConfigError, match="workers = 2: a population of your own runs in one process"):
        adagq.train(task=own, workers=2)
    with pytest.raises(adagq.ConfigError, match=r"task\.clients = 3: the fleet has 4 clients"):
        adagq.train(task=own, fleet=adagq.fleet.paper(clients=4))


def test_mistakes_and_divergence_are_named() -> None:
    with pytest.raises(adagq.ConfigError, match="did you mean 'training'"):
        adagq.compare(trainig={"target": 0.9})  # type: ignore[call-arg]
    with pytest.raises(adagq.ConfigError, match="workers = 0: must be at least 1"):
        adagq.compare(workers=0)
    hot = {**SMALL, "training": {"learning_rate": 1e30, "max_rounds": 3}}
    with pytest.raises(adagq.DivergedError, match=r"qsgd \(seed 0\) in round 1: learning rate too high\? .* = 1e\+30"):
        adagq.train(method="qsgd", **hot)


def test_the_example_compares_and_plots(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "examples" / "compare.py"
    lines = [line for line in script.read_text("utf-8").splitlines() if line.strip()]
    assert len(lines) <= 16  # a docstring and fifteen lines
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, cwd=tmp_path, env=dict(os.environ)
    )
    assert "adagq-auto" in done.stdout
    assert (tmp_path / "accuracy.svg").stat().st_size > 2000
    assert (tmp_path / "report.html").stat().st_size > 20_000


def test_a_loss_that_rose_far_is_named_though_it_is_finite(caplog: pytest.LogCaptureFixture) -> None:
    small = {"clients": 2, "samples_per_client": 40}
    adagq.train(method="qsgd", training={"max_rounds": 1, "learning_rate": 1e6}, task=small)
    assert "the loss rose from" in caplog.text
    assert "learning rate too high? (training.learning_rate = 1e+06)" in caplog.text
