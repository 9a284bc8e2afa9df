"""Differential privacy on Flower: the strategy's option, secret noise, nodes that ask for their own, resume."""

import json
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord

from adagq.core.errors import AdagqError, ConfigError
from adagq.core.messages import Task
from adagq.core.vectors import Layout
from adagq.flower import AdaGQ, Compressed
from adagq.flower.records import read
from adagq.server.privacy import epsilon_of
from loopback import LoopbackGrid
from toy import ToySpec

SPEC = ToySpec(layout=Layout.of({"weight": np.zeros((4, 8), np.float32), "bias": np.zeros(8, np.float32)}))
CENTRAL = {"clip": 2.0, "noise_multiplier": 1.5}
LOCAL = CENTRAL | {"noise": "clients"}


def start(
    folder: Path, rounds: int, grid: LoopbackGrid | None = None, method: str = "adagq-fit", **options
) -> list[dict]:
    grid = grid or LoopbackGrid(SPEC.build(), folder / "nodes")
    first = SPEC.layout.unpack(*SPEC.build().initial(0))
    arrays = ArrayRecord({name: Array(array) for name, array in first.items()})
    strategy = Compressed(method, out=folder / "run", deadline_seconds=30.0, min_available_nodes=4, **options)
    strategy.start(grid, arrays, num_rounds=rounds, train_config=ConfigRecord({"lr": 0.2}))
    return rows_of(folder)


def rows_of(folder: Path, name: str = "rows.jsonl") -> list[dict]:
    return [json.loads(line) for line in (folder / "run" / name).read_text("utf-8").splitlines()]


@pytest.mark.parametrize("privacy", [CENTRAL, LOCAL], ids=["server", "clients"])
def test_rows_say_what_was_spent(privacy: dict, tmp_path: Path) -> None:
    rows = start(tmp_path, 3, privacy=privacy)
    assert [row["epsilon"] for row in rows] == [epsilon_of(1.5, k, 1e-5) for k in (1, 2, 3)]
    assert [row["train_loss"] for row in rows] == [None] * 3
    assert [row["clients"] for row in rows] == [4] * 3


@pytest.mark.parametrize("privacy", [CENTRAL, LOCAL], ids=["server", "clients"])
def test_noise_does_not_come_from_the_runs_seed(privacy: dict, tmp_path: Path) -> None:
    """Every node knows the seed: noise that follows from it could be taken off again."""
    one, other = (start(tmp_path / name, 1, method="fedavg", privacy=privacy) for name in "ab")
    assert one[0]["norm"] != other[0]["norm"]
    plain = [start(tmp_path / name, 1, method="fedavg")[0]["norm"] for name in "cd"]
    assert plain[0] == plain[1]


def test_nodes_learn_their_clip_and_their_noise(tmp_path: Path) -> None:
    grid = LoopbackGrid(SPEC.build(), tmp_path / "nodes")
    start(tmp_path, 1, grid, privacy=LOCAL)
    tasks = [read(asked, Task) for _, asked in grid.asked if "adagq.task" in asked]
    assert {(task.clip_norm, task.noise_deviation) for task in tasks} == {(2.0, 3.0)}


def test_a_node_that_asks_for_noise_works_for_no_server_without(tmp_path: Path) -> None:
    grid = LoopbackGrid(SPEC.build(), tmp_path / "nodes")
    grid.config = {1003: {"adagq-least-noise": 1.0}}
    rows = start(tmp_path, 2, grid, privacy=CENTRAL)
    assert [row["clients"] for row in rows] == [3, 3]
    assert {(one["client"], one["kind"]) for one in rows_of(tmp_path, "incidents.jsonl")} == {(3, "failed")}
    assert "asks for at least 1" in rows_of(tmp_path, "incidents.jsonl")[0]["reason"]
    grid = LoopbackGrid(SPEC.build(), tmp_path / "other" / "nodes")
    grid.config = {1003: {"adagq-least-noise": 1.5}}
    assert [row["clients"] for row in start(tmp_path / "other", 2, grid, privacy=LOCAL)] == [4, 4]


def test_resume_goes_on_counting(tmp_path: Path) -> None:
    start(tmp_path, 2, privacy=LOCAL, config="same")
    rows = start(tmp_path, 4, privacy=LOCAL, config="same", resume=True)
    # Nodes may have answered in the round that was not closed when the server ended: one more.
    assert [row["epsilon"] for row in rows] == [epsilon_of(1.5, k, 1e-5) for k in (1, 2, 4, 5)]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"privacy": {"clip": 1.0}}, "one of epsilon and noise_multiplier"),
        ({"privacy": CENTRAL, "aggregate": "krum"}, "noise at the server is measured for the mean alone"),
        ({"privacy": 8.0}, "must be a table"),
    ],
)
def test_settings_without_sense(options: dict, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        AdaGQ(**options)


def test_few_nodes_and_a_large_delta(tmp_path: Path) -> None:
    with pytest.raises(AdagqError, match="below 1 / clients"):
        start(tmp_path, 1, privacy=CENTRAL | {"delta": 0.5})
