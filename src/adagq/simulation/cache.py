"""A pool with a cache: what a client computed once, for the same model and the same task, is not computed again.

Training is deterministic: the task, the model, the client's data and its state decide the update, and the fleet does
not. So methods that adapt to nothing send the same bytes over any links, and a table over several fleets needs their
training once. Results lie in a folder, one file each, named by a digest of all that they depend on; a file that is torn
or was changed is as good as none. The folder may be deleted at any time. Without a folder they lie in memory, until
`forget`.
"""

import dataclasses
import io
import json
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from adagq.client.replica import Replica
from adagq.core.atomic import replacing
from adagq.core.codec import Arrays
from adagq.core.messages import Update
from adagq.core.vectors import Layout
from adagq.simulation.pool import Pool, Recipe

BYTES = ("payload", "buffers")  # of an update: kept as they are, the rest as JSON
STATE = "state_"
REMEMBERED = ("work", "evaluate")


class CachedPool(Pool):
    """`pool`, asked only for what the folder does not hold; None keeps everything in memory."""

    def __init__(self, pool: Pool, folder: Path | None) -> None:
        super().__init__()
        self._pool = pool
        self._folder = folder
        self._held: dict[str, Any] = {}  # without a folder
        self._recipe = ""
        self._digests: dict[int, str] = {}  # of the models
        self._known: dict[int, Any] = {}  # job -> result from the folder
        self._asked: dict[int, tuple[int, str]] = {}  # job -> job of the pool, the name of its result
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def forget(self) -> None:
        """Forget what is held in memory."""
        self._held.clear()

    def prepare(self, recipe: Recipe, layout: Layout) -> None:
        self._recipe = repr(recipe)
        self._known.clear()
        self._asked.clear()
        self._pool.prepare(recipe, layout)

    def publish(self, replica: Replica) -> int:
        digest = xxhash.xxh3_128()
        for array in (replica.previous, replica.aggregate, replica.previous_buffers, replica.buffers):
            digest.update(np.ascontiguousarray(array).data)
        model = self._pool.publish(replica)
        self._digests[model] = digest.hexdigest()
        return model

    def retire(self, model: int) -> None:
        del self._digests[model]
        self._pool.retire(model)

    def submit(self, kind: str, model: int, *arguments: Any) -> int:
        job = next(self._numbers)
        name = self._name(kind, model, arguments) if kind in REMEMBERED else ""
        if name and (known := self._recalled(name, kind)) is not None:
            self._known[job] = known
        else:
            self._asked[job] = self._pool.submit(kind, model, *arguments), name
        return job

    def wait(self, jobs: Collection[int]) -> tuple[int, Any]:
        for job in jobs:
            if job in self._known:
                return job, self._known.pop(job)
        asked = {self._asked[job][0]: job for job in jobs}
        inner, result = self._pool.wait(asked)
        job = asked[inner]
        _, name = self._asked.pop(job)
        if name and self._folder is None:
            self._held[name] = result
        elif name and self._folder is not None:
            _keep(self._folder / name, result)
        return job, result

    def _recalled(self, name: str, kind: str) -> Any:
        return self._held.get(name) if self._folder is None else _recall(self._folder / name, kind)

    def _name(self, kind: str, model: int, arguments: tuple[Any, ...]) -> str:
        plain = [argument for argument in arguments if not isinstance(argument, dict)]
        digest = xxhash.xxh3_128(repr((kind, self._recipe, self._digests[model], plain)).encode())
        for state in (argument for argument in arguments if isinstance(argument, dict)):
            for name, array in sorted(state.items()):
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(array).data)
        return f"{digest.hexdigest()}.npz"


def _keep(path: Path, result: Any) -> None:
    arrays: dict[str, Any] = {}
    plain: Any = result
    if isinstance(result[0], Update):
        update, state = result
        plain = {name: value for name, value in dataclasses.asdict(update).items() if name not in BYTES}
        arrays = {name: np.frombuffer(getattr(update, name), np.uint8) for name in BYTES}
        arrays |= {STATE + name: array for name, array in state.items()}
    elif result[0] is None:
        return  # training diverged: nothing to send, nothing to keep
    arrays["head"] = np.frombuffer(json.dumps(plain).encode(), np.uint8)
    with replacing(path) as file:
        np.savez(file, **arrays)


def _recall(path: Path, kind: str) -> Any:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        plain = json.loads(arrays["head"].tobytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        path.unlink(missing_ok=True)
        return None
    if kind == "evaluate":
        return tuple(plain)
    plain |= {name: arrays[name].tobytes() for name in BYTES}
    state: Arrays = {name.removeprefix(STATE): array for name, array in arrays.items() if name.startswith(STATE)}
    return Update(**plain | {"rate_bits": tuple(plain["rate_bits"])}), state
