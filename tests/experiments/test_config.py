"""Settings: what a user may write, and what a mistake is answered with."""

from pathlib import Path

import pytest

from adagq.core.errors import ConfigError
from adagq.experiments.config import Config, load_config, resolve, to_toml
from adagq.methods.table import compared, method_of


def test_default_is_the_papers_fleet_and_all_methods() -> None:
    config = load_config()
    assert config.task.data == "digits"
    assert config.task.clients == 20
    assert config.methods == compared()
    assert config.fleet.uplink_mbps == (5.0, 20.0)


def test_resolved_settings_give_themselves(tmp_path: Path) -> None:
    config = load_config(None, ["seed=7", "training.target=0.5", "fleet.sigma_r=4", "task.width=32"])
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config), "utf-8")
    assert load_config(path) == config


def test_settings_on_the_command_line_win() -> None:
    settings = ["task.model=cnn", "training.max_rounds=3", 'methods=["qsgd"]', "fleet.uplink_mbps=[1, 2]"]
    config = load_config(None, settings)
    assert (config.task.model, config.training.max_rounds, config.methods) == ("cnn", 3, ("qsgd",))
    assert config.fleet.uplink_mbps == (1, 2)


@pytest.mark.parametrize("key", ["task", "fleet"])
def test_clients_are_counted_once(key: str) -> None:
    config = resolve({key: {"clients": 7}})
    assert (config.task.clients, config.fleet.clients) == (7, 7)


def test_client_tables_count_too(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text("[[client]]\ncount = 3\n[[client]]\nuplink_mbps = 1\n", "utf-8")
    assert resolve({"fleet": "fleet.toml"}, tmp_path).task.clients == 4
    assert resolve({"fleet": "paper"}).task.clients == 20


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["trainig.target=0.5"], "unknown key 'trainig': did you mean 'training'"),
        (["training.tarket=0.5"], "unknown key 'training.tarket': did you mean 'training.target'"),
        (["training.aggregate=medain"], "unknown aggregate 'medain': did you mean 'median'"),
        (["training.byzantine_share=0.5"], "training.byzantine_share"),
        (["task.batchsize=8"], "did you mean 'task.batch_size'"),
        (["fleet.uplink=8"], "did you mean 'fleet.uplink_mbps'"),
        (["task.seed=8"], "unknown key 'task.seed'"),
        (["training.target=1.5"], "training.target = 1.5: must be a number > 0 and <= 1"),
        (["training.target=high"], "training.target = 'high'"),
        (["seed=-1"], "seed = -1: must be a whole number >= 0"),
        (["task.batch_size=1"], "task.batch_size = 1: must be a whole number >= 2"),
        (["task.clients=5", "fleet.clients=6"], "task.clients = 5: the fleet has 6 clients"),
        (["training.participants=21"], "training.participants = 21: there are 20 clients"),
        (["fleet.uplink_mbps=[20, 5]"], "fleet.uplink_mbps"),
        (["fleet=nowhere.toml"], "nowhere.toml"),
        (["method=adagqfit"], "unknown method 'adagqfit': did you mean 'adagq-fit'"),
        (['methods=["qsdg"]'], "did you mean 'qsgd'"),
        (["seed"], "expected key=value"),
        (["seed.x=1"], "'seed' is not a table"),
        (["training=1"], "training = 1: must be a table"),
        (["task=1"], "task = 1: must be a table"),
        (["seed=true"], "seed = True: must be a whole number >= 0"),
        (["target=0.5"], "unknown key 'target': did you mean 'training.target'"),
        (["fleet.client=[{count=0}]"], "fleet.client[0].count = 0: must be a whole number >= 1"),
        (["variants=3"], "variants = 3: must be a table"),
        (["variants.mine.bse=qsgd"], "did you mean 'variants.mine.base'"),
    ],
)
def test_mistakes_are_named(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(None, settings)
    assert message in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("seed = = 1", "utf-8")
    with pytest.raises(ConfigError, match=r"bad\.toml"):
        load_config(tmp_path / "bad.toml")


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().seed = 3  # type: ignore[misc]


def test_error_feedback_is_a_suffix() -> None:
    assert method_of("qsgd+residual").residual
    assert method_of("qsgd+residual").name == "qsgd+residual"
