"""A run that one release began and a later one, which knows more settings, continues."""

from pathlib import Path

import pytest

from adagq.core.errors import CheckpointError
from adagq.experiments import runner
from adagq.experiments.config import Config, resolve, to_toml

TREE = {
    "methods": ["qsgd+residual"],
    "training": {"target": 1.0, "max_rounds": 4, "learning_rate": 0.1},
    "task": {"data": "synthetic", "model": "mlp", "samples_per_client": 60, "clients": 4},
}


def without_channels_last(config: Config) -> str:
    """Return the settings as a release writes them that does not know one of them yet."""
    text = to_toml(config)
    assert "channels_last = false\n" in text
    return text.replace("channels_last = false\n", "")


def test_a_setting_that_came_later_has_its_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = resolve(TREE)
    with monkeypatch.context() as before:
        before.setattr(runner, "to_toml", without_channels_last)
        list(runner.run(config, tmp_path / "whole"))
        steps = runner.run(config, tmp_path / "run")
        next(steps), next(steps)
        steps.close()  # type: ignore[attr-defined]
    for _ in range(2):  # the settings stay as they were written, so it can be stopped and continued again
        steps = runner.run(config, tmp_path / "run", resume=True)
        next(steps)
        steps.close()  # type: ignore[attr-defined]
    for name in ("config.toml", "rows.jsonl", "ledger.jsonl", "audit.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_another_value_of_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(runner, "to_toml", without_channels_last)
        steps = runner.run(resolve(TREE), tmp_path)
        next(steps), next(steps)
        steps.close()  # type: ignore[attr-defined]
    other = resolve(TREE | {"task": {**TREE["task"], "channels_last": True}})  # type: ignore[dict-item]
    with pytest.raises(CheckpointError, match="channels_last"):
        next(runner.run(other, tmp_path, resume=True))


def test_another_default_of_the_method_to_train_changes_no_comparison(tmp_path: Path) -> None:
    before, now = resolve(TREE | {"method": "adagq-fit"}), resolve(TREE)
    assert before.method != now.method
    list(runner.run(now, tmp_path / "whole"))
    steps = runner.run(before, tmp_path / "run")
    next(steps), next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert [step.row["round"] for step in runner.run(now, tmp_path / "run", resume=True)] == [3, 4]
    assert (tmp_path / "run/rows.jsonl").read_bytes() == (tmp_path / "whole/rows.jsonl").read_bytes()
