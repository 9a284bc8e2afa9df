"""A run directory of a loop without a barrier, left while clients train, ends with the bytes of one left alone."""

from itertools import islice
from pathlib import Path

import pytest

from adagq.experiments.config import Config, load_config
from adagq.experiments.runner import run

FILES = ("config.toml", "rows.jsonl", "ledger.jsonl", "incidents.jsonl")


def small(name: str) -> Config:
    settings = (
        f"methods=['{name}+residual']", "task.model=mlp", "task.width=24", "task.clients=5", "training.target=1.0",
        "task.samples_per_client=40", "task.test_samples=100", "training.max_rounds=9", "fleet.drop_rate=0.2",
    )  # fmt: skip
    return load_config(None, settings)


@pytest.mark.parametrize("name", ["qafel", "fedasync", "fedsa"])
def test_a_run_directory_is_taken_up_while_clients_train(name: str, tmp_path: Path) -> None:
    config = small(name)
    list(run(config, tmp_path / "whole"))
    for steps in (2, 3):
        begun = run(config, tmp_path / "left", resume=steps > 2)
        assert len(list(islice(begun, steps))) == steps
        begun.close()
    list(run(config, tmp_path / "left", workers=2, resume=True))
    for file in FILES:
        assert (tmp_path / "left" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
