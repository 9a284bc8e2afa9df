"""Plugins: a file of one's own registers parts, and settings use them by name."""

import json
from pathlib import Path

import pytest

from adagq.control import CONTROLLERS
from adagq.core.errors import ConfigError
from adagq.experiments.config import load_config, resolve, to_toml
from adagq.experiments.runner import run

CONTROLLER = '''
from dataclasses import dataclass
from adagq.control import CONTROLLERS, Fixed

@CONTROLLERS.register("{name}")
@dataclass(frozen=True)
class Steady(Fixed):
    """The same levels for all, one of 63 unless set."""
    levels: int = 63
'''
SETTINGS = """
plugins = ["{file}"]
methods = ["mine"]

[variants.mine]
base = "qsgd"
controller = {{ kind = "{name}" }}

[training]
max_rounds = 1

[task]
model = "mlp"
width = 8
clients = 4
"""


def test_a_run_uses_the_parts_of_a_file_beside_its_settings(tmp_path: Path) -> None:
    (tmp_path / "steady_one.py").write_text(CONTROLLER.format(name="steady-one"))
    (tmp_path / "mine.toml").write_text(SETTINGS.format(file="steady_one.py", name="steady-one"))
    config = load_config(tmp_path / "mine.toml")
    assert config.plugins == config.task.plugins == (str(tmp_path / "steady_one.py"),)
    assert type(config.row("mine").controller) is CONTROLLERS["steady-one"]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "again.toml").write_text(to_toml(config))
    assert load_config(tmp_path / "elsewhere" / "again.toml") == config
    list(run(config, tmp_path / "run"))
    rows = [json.loads(line) for line in (tmp_path / "run" / "rows.jsonl").read_text().splitlines()]
    assert [row["levels"] for row in rows] == [63]


def test_plugins_may_be_set_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "steady_two.py").write_text(CONTROLLER.format(name="steady-two"))
    monkeypatch.chdir(tmp_path)
    load_config(None, ['plugins=["steady_two.py"]'])
    assert "steady-two" in CONTROLLERS


def test_a_module_is_a_plugin_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_steady_parts.py").write_text(CONTROLLER.format(name="steady-three"))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert resolve({"plugins": ["my_steady_parts"]}).plugins == ("my_steady_parts",)
    assert "steady-three" in CONTROLLERS


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ("mine.py", "plugins = 'mine.py': must be an array"),
        ([3], "plugins = [3]: must be an array"),
        (["nowhere.py"], "nowhere.py"),
        (["no.such.module"], "plugin 'no.such.module' cannot be imported"),
    ],
)
def test_mistakes_are_named(plugins: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({"plugins": plugins})
    assert message in str(caught.value)


PARTS = '''
import numpy as np
from torch import nn
from adagq.data import DATASETS, DataOptions, DataSet
from adagq.learners import MODELS, ModelOptions

@DATASETS.register("rings")
def rings(options: DataOptions) -> DataSet:
    """Points on two circles."""
    angles = np.linspace(0, 40, 400)
    labels = np.arange(400) % 2
    inputs = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32) * (1 + labels[:, None]).astype(np.float32)
    return DataSet("rings", inputs[:300], labels[:300], inputs[300:], labels[300:], 2)

@MODELS.register("squares")
class Squares(nn.Module):
    """A linear model of the squares."""
    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.linear = nn.Linear(options.shape[0], options.classes)

    def forward(self, x):
        return self.linear(x * x)
'''


def test_workers_load_plugins_too(tmp_path: Path) -> None:
    (tmp_path / "rings_and_squares.py").write_text(PARTS)
    tree = {
        "plugins": ["rings_and_squares.py"],
        "methods": ["qsgd"],
        "training": {"max_rounds": 20, "target": 0.95, "learning_rate": 0.1},
        "task": {"data": "rings", "model": "squares", "clients": 4},
    }
    steps = list(run(resolve(tree, tmp_path), tmp_path / "run", workers=2))
    assert steps[-1].row["accuracy"] >= 0.95
