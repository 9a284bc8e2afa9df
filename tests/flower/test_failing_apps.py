"""A user's app that does not work: said once, with its own traceback and the node, and the run ends."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error

from adagq.core.errors import AdagqError
from adagq.flower import Compressed, admission
from loopback import LoopbackGrid
from toy import LAYOUT, ToyLearner, ToyPopulation, ToySpec

UNREGISTERED = "ValueError: No train function registered with name 'adagq'"


class Broken(ToyPopulation):
    """Clients in `without` have no learner; those in `untrained` have one that cannot train."""

    without: tuple[int, ...] = ()
    untrained: tuple[int, ...] = ()

    def learner(self, client: int) -> ToyLearner:
        if client in self.without:
            raise FileNotFoundError(f"no data of client {client}")
        made = super().learner(client)
        if client in self.untrained:

            def train(*_: Any, **__: Any) -> float:
                raise NameError("name 'optimiser' is not defined")

            made.train = train  # type: ignore[method-assign]
        return made


@pytest.fixture
def grid(tmp_path: Path) -> LoopbackGrid:
    return LoopbackGrid(Broken(ToySpec()), tmp_path / "nodes")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(admission, "log", lambda _, text, *values: lines.append(text % values))
    monkeypatch.setattr(admission, "PAUSE_SECONDS", 0.05)
    return lines


def start(grid: LoopbackGrid, nodes: int = 4, **options: Any) -> Any:
    strategy = Compressed("qsgd", min_available_nodes=nodes, deadline_seconds=20.0, **options)
    first = LAYOUT.unpack(*grid.population.initial(0))
    return strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({name: Array(array) for name, array in first.items()}),
        num_rounds=2,
        train_config=ConfigRecord({"lr": 0.2}),
    )


def test_a_learner_that_cannot_be_made_ends_the_run_after_a_few_greetings(grid: LoopbackGrid, said: list[str]) -> None:
    grid.population.without = (0, 1, 2, 3)
    with pytest.raises(AdagqError, match=r"none of the 4 connected nodes can take part: .*no data of client 0"):
        start(grid)
    assert Counter(node for node, _ in grid.asked) == dict.fromkeys(range(1000, 1004), admission.MAX_GREETINGS)
    tracebacks = [line for line in said if "Traceback" in line]
    assert len(tracebacks) == 4  # once a node
    assert all("raise FileNotFoundError" in line and "Node 100" in line for line in tracebacks)
    assert len(said) == 8  # and once that it is given up, with what to do
    assert sum("does its learner() work?" in line for line in said) == 4


def test_an_app_that_registers_nothing_ends_the_run(grid: LoopbackGrid, said: list[str]) -> None:
    grid.spoil = dict.fromkeys(grid.nodes, lambda *_: Error(code=2, reason=UNREGISTERED))
    with pytest.raises(AdagqError, match=r"No train function registered.*does it call adagq\.flower\.register"):
        start(grid)
    assert len(grid.asked) == 4 * admission.MAX_GREETINGS
    assert len(said) == 8


def test_the_others_go_on_without_a_node_that_has_no_learner(grid: LoopbackGrid, said: list[str]) -> None:
    grid.population.without = (2,)
    result = start(grid, nodes=3)
    assert result.train_metrics_clientapp[2]["clients"] == 3
    assert sum(node == 1002 for node, _ in grid.asked) <= admission.MAX_GREETINGS


def test_training_that_fails_everywhere_ends_the_run_with_the_apps_own_words(
    grid: LoopbackGrid, said: list[str], tmp_path: Path
) -> None:
    grid.population.untrained = (0, 1, 2, 3)
    with pytest.raises(AdagqError, match="name 'optimiser' is not defined"):
        start(grid, out=tmp_path / "run")
    tasks = [content for _, content in grid.asked if "adagq.task" in content]
    assert len(tasks) <= 4 * 3  # a few attempts, not twenty
