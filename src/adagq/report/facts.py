"""What a run says about itself: target, payload scale, task and fleet, from config.toml and summary.json.

The config decides, an earlier summary fills its gaps. The config is read leniently, key by key, because a
report must also open runs of other versions: what is not there is not shown.
"""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adagq.core.errors import ConfigError

KEPT = ("target", "payload_scale", "task", "fleet", "clients")
OWN_TASK = "own"  # task.data of a run with a population from Python
Tree = Mapping[str, Any]


def run_facts(directory: Path, config_text: str) -> dict[str, Any]:
    """The KEPT facts, as far as they are written down; `task` and `fleet` are texts for people."""
    try:
        config = tomllib.loads(config_text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{directory / 'config.toml'}: {error}") from None
    task, fleet, training = (_table(config, key) for key in ("task", "fleet", "training"))
    facts: dict[str, Any] = {
        "target": training.get("target", config.get("target")),
        "payload_scale": config.get("payload_scale"),
        "task": _task(task) or str(config.get("task", "")),
        "fleet": _fleet(fleet) or str(config.get("fleet", "")),
        "clients": task.get("clients", fleet.get("clients")),
    }
    summary = directory / "summary.json"
    if summary.is_file():
        try:
            known = json.loads(summary.read_text(encoding="utf-8"))["run"]
            if not known.get("target_named", True):  # it was the rows', and there may be more of them
                known["target"] = None
            facts |= {key: known[key] for key in KEPT if known.get(key) and not facts[key]}
        except (json.JSONDecodeError, KeyError, AttributeError, TypeError):
            pass  # it is rebuilt anyway
    return {key: value for key, value in facts.items() if value is not None}


def _table(config: Tree, key: str) -> Tree:
    value = config.get(key)
    return value if isinstance(value, dict) else {}


def _task(task: Tree) -> str:
    if task.get("function"):
        return f"own model and data ({str(task['function']).rpartition('/')[2]})"
    if task.get("data") == OWN_TASK:
        return "own model and data"
    words = [str(task[key]) for key in ("data", "model") if task.get(key)]
    if task.get("partition"):
        words.append(f"{task['partition']} {task.get('partition_value', '')}".strip())
    return ", ".join(words)


def _fleet(fleet: Tree) -> str:
    words = [str(fleet["name"])] if fleet.get("name") else []
    if fleet.get("client"):
        return ", ".join([*words, f"{len(fleet['client'])} kinds of clients"])
    for key, text in (("uplink", "uplink {} Mbit/s"), ("downlink", "downlink {} Mbit/s")):
        if f"{key}_mbps" in fleet:
            words.append(text.format(_span(fleet[f"{key}_mbps"])))
    if "epoch_seconds" in fleet:
        words.append(f"{_span(fleet['epoch_seconds'])} s per epoch")
    scales = ("link_scale", "uplink_scale", "downlink_scale")
    words += [f"{key} {fleet[key]:g}" for key in scales if fleet.get(key, 1) != 1]
    return ", ".join(words)


def _span(value: Any) -> str:
    """One number, or the ends of a range."""
    ends = value if isinstance(value, list) else [value]
    return "–".join(f"{end:g}" if isinstance(end, int | float) else str(end) for end in ends)
