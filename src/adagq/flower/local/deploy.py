"""One config on a federation of this machine: the same run directory as a simulation's, with measured seconds."""

import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from adagq.core.errors import AdagqError
from adagq.core.jsonl import read_lines
from adagq.experiments.config import Config, load_config
from adagq.experiments.run_directory import ROWS
from adagq.experiments.runner import Step, goals_of
from adagq.flower.local.cluster import Federation

LOOK_SECONDS: Final = 0.2


def deployed_config(path: Path | None, settings: Sequence[str], nodes: int) -> Config:
    """Return the settings for real nodes: their links are what they are, and payloads count once."""
    config = load_config(path, [*settings, "fleet={}", f"task.clients={nodes}", "payload_scale=1.0"])
    return config.model_copy(update={"methods": (config.method,), "seeds": 1})


def deploy(
    config: Config, out: Path, *, tls: bool = False, resume: bool = False, logs: Path | None = None, slow: str = ""
) -> Iterator[Step]:
    """Bring up SuperLink and nodes, run the config, take them down; yield after each round.

    `slow` names nodes that train longer, such as "3=10": node 3 by ten seconds.
    """
    from adagq.flower.local.app import write_app
    from adagq.flower.local.slowing import parse_slow

    parse_slow(slow, config.task.clients)
    method = config.row(config.method)
    goal = goals_of(config, [config.method])[config.method]
    with ExitStack() as stack:
        folder = logs or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="adagq-deploy-")))
        rows: list[Mapping[str, Any]] = list(read_lines(out / ROWS)) if resume else []
        if goal.met(rows):
            return
        federation = stack.enter_context(Federation(config.task.clients, folder.absolute(), tls=tls))
        running = federation.run(write_app(folder / "app", config, out, resume, slow))
        for row in _follow(running, out, len(rows)):
            rows.append(row)
            yield Step(method, config.seed, row)
        if not goal.met(rows):
            raise AdagqError(
                f"the server ended after {len(rows)} rounds, before the run was over; continue with "
                f"--resume --out {out}. Its log ends: {federation.tail('run')}"
            )


def _follow(running: "subprocess.Popen[bytes]", out: Path, known: int) -> Iterator[Mapping[str, Any]]:
    """Yield the rows that the server writes until it has ended."""
    while True:
        ended = running.poll() is not None
        rows = list(read_lines(out / ROWS))
        yield from rows[known:]
        known = max(known, len(rows))
        if ended:
            return
        time.sleep(LOOK_SECONDS)
