"""`deploy local --slow`: real nodes, one of them slower; a loop without a barrier goes on meanwhile."""

from pathlib import Path

import pytest

from adagq.core.errors import ConfigError
from adagq.core.jsonl import read_lines
from adagq.flower.local.deploy import deploy, deployed_config
from adagq.flower.local.slowing import Slowed, parse_slow


@pytest.mark.parametrize("given", ["3", "x=1", "4=1", "0=-1", "0=1=2"])
def test_what_cannot_be_read_is_named(given: str) -> None:
    with pytest.raises(ConfigError, match="slow = "):
        parse_slow(given, nodes=4)


def test_a_slowed_learner_is_the_learner_but_for_its_training() -> None:
    class Quick:
        examples = 7

        def train(self, epochs: int, learning_rate: float, seed: int) -> float:
            return 0.5

    slowed = Slowed(Quick(), 0.01)
    assert (slowed.examples, slowed.train(1, 0.1, 0)) == (7, 0.5)


@pytest.mark.slow
def test_fedbuff_steps_on_while_one_real_node_trains(tmp_path: Path) -> None:
    settings = ["method=fedbuff", "training.max_rounds=5", "training.target=1.0", "training.deadline_seconds=120"]
    config = deployed_config(None, [*settings, "task.width=24"], nodes=4)
    rows = [step.row for step in deploy(config, tmp_path / "run", slow="3=30")]
    early = [line["client"] for line in read_lines(tmp_path / "run" / "ledger.jsonl") if line["round"] <= 3]
    assert len(rows) == 10  # steps of two arrivals: twice as many as rounds
    assert len(early) == 6
    assert rows[2]["seconds"] < rows[-1]["seconds"]
    assert all(row["clients"] >= 1 for row in rows)
