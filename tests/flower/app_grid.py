"""A Flower app within this process: its ServerApp runs over nodes that are its own ClientApp, a context each.

Apps are loaded as Flower loads them, from their folder and by the names in its pyproject.toml.
"""

import importlib
import sys
import tomllib
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict

from loopback import LoopbackGrid
from toy import ToySpec


class AppGrid(LoopbackGrid):
    """`client_app` answers for every node."""

    def __init__(self, client_app: Any, folder: Path, nodes: int, run_config: dict[str, Any]) -> None:
        super().__init__(ToySpec().build(), folder, {1000 + number: number for number in range(nodes)})
        self._client_app, self._run_config = client_app, run_config
        self._states = {node: RecordDict() for node in self.nodes}

    def _answer(self, name: str, node: int, message: Message) -> None:
        config = {
            "partition-id": self.nodes[node],
            "num-partitions": len(self.nodes),
            "adagq-folder": str(self.folder),
        }
        context = Context(1, node, config, self._states[node], self._run_config)
        self._replies[name] = self._client_app(message, context)


def run_app(app: Path, folder: Path, nodes: int = 2, **config: Any) -> AppGrid:
    """Run the app in `app` to its end, with `config` on top of its own, and return the grid."""
    flower = tomllib.loads((app / "pyproject.toml").read_text("utf-8"))["tool"]["flwr"]["app"]
    settings = flower["config"] | {key.replace("_", "-"): value for key, value in config.items()}
    if str(app) not in sys.path:
        sys.path.append(str(app))
    server, client = (_part(flower["components"][key]) for key in ("serverapp", "clientapp"))
    grid = AppGrid(client, folder, nodes, settings)
    server(grid, Context(1, 1, {}, RecordDict(), settings))
    return grid


def _part(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
