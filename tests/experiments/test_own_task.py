"""A task of one's own in the settings: who is called how, on any number of workers, and which mistakes are named."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import adagq
from adagq.core.errors import ConfigError
from adagq.experiments.config import load_config, resolve, to_toml

MODULE = """
import numpy as np
from {helper} import centre

import adagq
from adagq.core.vectors import Layout

class Learner:
    examples, held_out = 10, 2

    def __init__(self, client, layout):
        self.layout, self.client = layout, client

    def load(self, vector, buffers):
        self.vector = vector.copy()

    def dump(self):
        return self.vector.copy(), np.zeros(0, np.float32)

    def train(self, epochs, learning_rate, seed):
        self.vector += np.float32(learning_rate) * (centre(self.client) - self.vector)
        return self.loss()

    def loss(self):
        return float(np.mean(np.square(self.vector - centre(self.client))))

class Population:
    flops_per_sample, test_samples = 10.0, 1

    def __init__(self, clients, seed):
        self.clients, self.seed = clients, seed
        self.layout = Layout.of_sizes([6])

    def initial(self, seed):
        return np.full(6, self.seed, np.float32), np.zeros(0, np.float32)

    def learner(self, client):
        return Learner(client, self.layout)

    def evaluate(self, vector, buffers, first=0, last=None):
        loss = float(np.mean(np.square(vector - 1)))
        return float(np.exp(-loss)), loss

def build(clients=3, seed=0):
    return Population(clients, seed)

def fixed():
    return Population(5, 0)

def told(clients):
    return Population(clients, 0)

def nothing():
    return [1, 2]

class Unlike:
    pass
"""
HELPER = """
import numpy as np

def centre(client):
    return np.float32(1 + client / 100)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    name = tmp_path.name.replace("-", "_")  # modules are known by their name for as long as the process lives
    (tmp_path / f"help_{name}.py").write_text(HELPER)
    (tmp_path / f"own_{name}.py").write_text(MODULE.format(helper=f"help_{name}"))
    return tmp_path


def module_of(folder: Path) -> str:
    return f"own_{folder.name.replace('-', '_')}"


@pytest.mark.parametrize("suffix", ["", ".py"])
@pytest.mark.parametrize("form", ['task = "{0}"', '[task]\nfunction = "{0}"'])
def test_settings_name_a_function_beside_them(folder: Path, suffix: str, form: str) -> None:
    file = folder / "my.toml"
    file.write_text(form.format(f"{module_of(folder)}{suffix}:build"))
    config = load_config(file)
    assert config.task.function == f"{folder / module_of(folder)}.py:build"
    assert (config.task.clients, config.fleet.clients, config.payload_scale) == (3, 3, 1.0)
    assert resolve(__import__("tomllib").loads(to_toml(config))) == config


def test_the_fleet_or_the_settings_say_how_many_clients(folder: Path) -> None:
    reference = f"{folder / module_of(folder)}.py"
    assert resolve({"task": f"{reference}:build", "fleet": {"clients": 7}}).task.clients == 7
    assert resolve({"task": {"function": f"{reference}:build", "clients": 6}}).fleet.clients == 6
    assert resolve({"task": f"{reference}:fixed"}).task.clients == 5
    assert resolve({"task": f"{reference}:told"}).task.clients == 20  # the paper's fleet
    assert load_config(None, [f"task={reference}:build", "task.clients=4"]).task.build().clients == 4
    (folder / "a.toml").write_text("[task]\ndata = 'synthetic'\nclients = 9\n")
    assert load_config(folder / "a.toml", [f"task={reference}:build"]).task.build().clients == 9


def test_rows_are_the_same_on_any_number_of_workers(folder: Path) -> None:
    settings = {
        "task": f"{folder / module_of(folder)}.py:build",
        "methods": ["qsgd"],
        "seeds": 2,
        "training": {"max_rounds": 2, "target": 1.0},
    }
    one, two = (adagq.compare(**settings, workers=workers) for workers in (1, 2))
    assert one.rows == two.rows
    firsts = {row["accuracy"] for row in one.rows if row["round"] == 1 and row["method"] == "qsgd"}
    assert len(firsts) == 2  # the seed reaches the function


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("{0}:biuld", {}, "has no function 'biuld': did you mean 'build'?"),
        ("{0}:nothing", {}, "returned list, which has no 'layout': it must return a population"),
        ("{0}:fixed", {"fleet": {"clients": 2}}, "made 5 clients where 2 are asked for: let it take `clients`"),
        ("{0}", {}, "must be 'package.module:function' or 'file.py:function'"),
        ("no_such_module_of_mine:build", {}, "task 'no_such_module_of_mine' cannot be imported"),
        ("gone.py:build", {}, "there is no file"),
    ],
)
def test_mistakes_are_named(folder: Path, name: str, settings: dict, message: str) -> None:
    reference = name.format(f"{folder / module_of(folder)}.py")
    with pytest.raises(ConfigError) as caught:
        resolve({"task": reference, **settings}).task.build()
    assert message in str(caught.value)


def test_a_key_of_built_in_tasks_is_not_silently_ignored(folder: Path) -> None:
    table = {"function": f"{folder / module_of(folder)}.py:build", "batch_size": 8}
    with pytest.raises(ConfigError, match=r"task\.batch_size: has no effect with task\.function"):
        resolve({"task": table})


SCRIPT = """
import adagq
from {module} import build
settings = dict(methods=["qsgd"], training={{"max_rounds": 1, "target": 1.0}}, workers={workers})
adagq.compare(task={task}, **settings)
"""


def test_a_missing_guard_is_named_by_the_worker(folder: Path) -> None:
    script = folder / "without_guard.py"
    script.write_text(SCRIPT.format(module=module_of(folder), task="build", workers=2))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=folder)
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith('your script, which runs adagq again: put it under `if __name__ == "__main__":`')
    assert "bootstrapping" not in done.stderr


def test_a_missing_guard_is_named_by_the_import(folder: Path) -> None:
    script = folder / f"guardless_{module_of(folder)}.py"
    script.write_text(SCRIPT.format(module=module_of(folder), task=f"'{module_of(folder)}.py:build'", workers=1))
    with pytest.raises(ConfigError, match=f"{script.name} calls adagq.compare while it is imported: put the call"):
        resolve({"task": f"{script}:build"})


def test_a_file_of_a_package_is_imported_as_its_part(tmp_path: Path) -> None:
    package = tmp_path / f"package_of_{tmp_path.name.replace('-', '_')}"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text(HELPER)
    (package / "task.py").write_text(MODULE.format(helper=".helper"))
    config = resolve({"task": f"{package.name}.task:build"}, tmp_path)
    assert config.task.function == f"{package / 'task.py'}:build"
    assert config.task.build().clients == 3


def test_a_function_that_no_other_process_can_find_is_refused() -> None:
    with pytest.raises(ConfigError, match="stands in its module by itself"):
        adagq.train(task=lambda: None)


def test_split_gives_every_client_its_own_samples() -> None:
    import numpy as np

    x, y = np.arange(60).reshape(60, 1), np.arange(60) % 3
    shares = adagq.split(x, y, clients=4, seed=1, how="sigma_d", value=0.8, held_out=0.2)
    seen = np.concatenate([np.concatenate([train[0], held[0]]) for train, held in shares]).ravel()
    assert len(set(seen.tolist())) == len(seen)
    assert {len(held[1]) for _, held in shares} == {round(0.2 * len(shares[0][0][1]) / 0.8)}
    assert json.dumps([int(v) for v in seen[:3]])
    with pytest.raises(adagq.DataError, match="60 inputs, 59 labels"):
        adagq.split(x, y[1:], clients=4)
