"""The Flower app that runs an adagq config: every node learns on its partition of the config's task.

`write_app` makes the folder that `flwr run` wants; the config travels in it, so nodes need nothing but adagq.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from flwr.app import Context

from adagq.client.learner import Learner
from adagq.experiments.config import Config, resolve, to_toml
from adagq.experiments.runner import goals_of
from adagq.flower.apps import server_app, train_population
from adagq.flower.conventions import DEADLINE_FACTOR
from adagq.flower.local.processes import Process, end_with, this_process
from adagq.flower.local.slowing import Slowed, parse_slow
from adagq.flower.strategy import Compressed

PACKAGE: Final = "adagq_deployment"
SERVER: Final = 'from adagq.flower.local.app import server as app\n\n__all__ = ["app"]\n'
CLIENT: Final = """from flwr.clientapp import ClientApp

from adagq.flower import register

app = ClientApp()
register(app, "adagq.flower.local.app:learner")
"""
SCHEDULE: Final = (
    *("learning_rate", "decay", "participants", "exchanges", "deadline_seconds"),
    *("min_updates", "norm_bound", "weight_bound", "aggregate", "byzantine_share", "exclude_after", "privacy"),
)


def write_app(folder: Path, config: Config, out: Path, resume: bool = False, slow: str = "") -> Path:
    """Write the app into `folder` and return it."""
    us = this_process()
    settings = {"config": to_toml(config), "out": str(out.absolute()), "resume": resume, "slow": slow}
    settings |= {"command-pid": us.pid, "command-began": us.began}
    return write_package(folder, CLIENT, SERVER, settings)


def write_package(folder: Path, client: str, server: str, settings: Mapping[str, Any]) -> Path:
    """Write a Flower app of two modules into `folder` and return it."""
    import tomli_w

    components = {"serverapp": f"{PACKAGE}.server_app:app", "clientapp": f"{PACKAGE}.client_app:app"}
    project = {
        "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
        "project": {"name": "adagq-deployment", "version": "1.0.0", "license": "Apache-2.0", "dependencies": []},
        "tool": {"flwr": {"app": {"publisher": "adagq", "components": components, "config": dict(settings)}}},
    }
    package = folder / PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(tomli_w.dumps(project), "utf-8")
    (package / "__init__.py").write_text("", "utf-8")
    (package / "client_app.py").write_text(client, "utf-8")
    (package / "server_app.py").write_text(server, "utf-8")
    return folder


def learner(context: Context) -> Learner:
    """Return the learner of a node's partition."""
    config = _config(context.run_config)
    node = int(context.node_config["partition-id"])
    made = replace(config.task, seed=config.seed).build().learner(node)
    seconds = parse_slow(str(context.run_config["slow"]), config.task.clients).get(node, 0.0)
    return cast(Learner, Slowed(made, seconds)) if seconds else made


def _train(run: Mapping[str, Any], grid: Any) -> None:
    end_with(Process(int(run["command-pid"]), str(run["command-began"])))
    config = _config(run)
    training, goal = config.training, goals_of(config, [config.method])[config.method]

    strategy = Compressed(
        config.row(config.method),
        min_available_nodes=config.task.clients,
        fraction_evaluate=0.0,  # the server does, on the common test set
        seed=config.seed,
        buffers=(),
        out=str(run["out"]),
        resume=bool(run["resume"]),
        config=str(run["config"]),
        until=goal.met,
        deadline_factor=max(training.deadline_factor, DEADLINE_FACTOR),
        **{name: getattr(training, name) for name in SCHEDULE},
    )
    population = replace(config.task, seed=config.seed).build()
    strategy.buffers = tuple(tensor.name for tensor in population.layout.tensors if tensor.buffer)
    train_population(strategy, grid, population, config.seed, goal.max_rounds)


def _config(run: Mapping[str, Any]) -> Config:
    return resolve(tomllib.loads(str(run["config"])))


server = server_app(_train)
