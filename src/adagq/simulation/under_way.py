"""Clients under way as arrays, for a checkpoint of a loop that is left while they train.

Training is deterministic, so results are not kept: who was posted what and when, and the models that they began with,
are enough to do the same work again.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.client.replica import Replica
from adagq.client.tasks import task_from_plain, task_to_plain
from adagq.simulation.clock import Visit

UNDER_WAY: Final = "under_way"
MODEL: Final = "model_"
KEPT: Final = ("client", "round", "attempt", "posted", "download_bytes", "download_seconds", "probe_seconds")
PARTS: Final = ("previous", "aggregate", "buffers", "previous_buffers")  # the vector follows from them


def pack(visits: Iterable[tuple[Visit, Replica]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of these visits, each with the model that the client began with; {} if there are none."""
    plain: list[dict[str, Any]] = []
    arrays: dict[str, NDArray[Any]] = {}
    for visit, replica in visits:
        assert visit.task is not None, "a client under way has a task"
        fields = {name: getattr(visit, name) for name in KEPT}
        plain.append(fields | {"version": replica.version, "task": task_to_plain(visit.task)})
        arrays |= {f"{MODEL}{replica.version}_{part}": getattr(replica, part) for part in PARTS}
    return {UNDER_WAY: np.frombuffer(json.dumps(plain).encode(), np.uint8), **arrays} if plain else {}


def unpack(saved: Mapping[str, NDArray[Any]]) -> Iterator[tuple[Visit, Replica]]:
    """Yield what `pack` was given, clients of one version with the same replica."""
    replicas: dict[int, Replica] = {}
    for plain in json.loads(saved[UNDER_WAY].tobytes()) if UNDER_WAY in saved else ():
        version = plain.pop("version")
        if version not in replicas:
            parts = {part: saved[f"{MODEL}{version}_{part}"] for part in PARTS}
            replicas[version] = Replica(version, parts["previous"] - parts["aggregate"], **parts)
        yield Visit(**plain | {"task": task_from_plain(plain["task"])}), replicas[version]
