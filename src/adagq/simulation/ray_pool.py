"""Workers on a Ray cluster: the same jobs, the same rows, on any number of machines.

    with open_pool("ray") as pool: …                  # Ray on this machine, one worker a core
    with open_pool("ray:10.0.0.5:6379") as pool: …    # a cluster, from a machine that belongs to it
    with open_pool("ray://10.0.0.5:10001") as pool: … # a cluster, from outside

A job is a Ray task. What it needs travels with it or lies in the object store: a model is put there once and copied
once to each machine, where all workers read the same memory; a client's state comes with its job and goes back with the
result. So a worker or a machine that is lost takes nothing along: Ray runs its tasks again somewhere else, and since
they are deterministic the rows are the same. A worker process builds the population once and keeps it for all jobs.
"""

import contextlib
import hashlib
import logging
import os
import pickle
import secrets
import traceback
from collections.abc import Collection, Iterator
from typing import Any, Final

from adagq.client.replica import Replica
from adagq.core.errors import AdagqError, ConfigError
from adagq.core.extras import need
from adagq.core.machine import cores
from adagq.core.vectors import Layout
from adagq.simulation.pool import Crash, Pool, Recipe, Worker, result_of

RETRIES: Final = 10  # of a task whose worker or machine was lost
LIVE: Final = 4  # models that a worker process keeps

_players: dict[str, Worker] = {}  # of this worker process: one, by its pool and the digest of its recipe


class RayPool(Pool):
    """Jobs as Ray tasks. `address`: "" starts Ray here; else that of a cluster, as `ray.init` takes it."""

    def __init__(self, address: str = "") -> None:
        super().__init__()
        self._ray = need("ray", "ray")
        self._owned = not self._ray.is_initialized()
        if self._owned:
            _connect(self._ray, address)
        self._token = secrets.token_hex(8)  # another pool counts its models from 1 too
        self._recipe: Any = None
        self._digest = ""
        self._play: Any = None
        self._models: dict[int, tuple[int, Any]] = {}  # model -> its version, its parts in the object store
        self._jobs: dict[int, Any] = {}  # job -> the reference of its result

    def prepare(self, recipe: Recipe, layout: Layout) -> None:
        self._models.clear()
        self._jobs.clear()
        data = pickle.dumps(recipe)
        self._digest = f"{self._token} {hashlib.sha256(data).hexdigest()}"
        self._recipe = self._ray.put(data)
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": RETRIES}
        found = self._ray.cluster_resources()
        if found.get("GPU") and getattr(recipe, "device", "cpu") != "cpu":
            options["num_gpus"] = found["GPU"] / max(found.get("CPU", 1.0), found["GPU"])  # workers share them
        self._play = self._ray.remote(**options)(_play)

    def publish(self, replica: Replica) -> int:
        model = next(self._numbers)
        parts = (replica.previous, replica.aggregate, replica.previous_buffers, replica.buffers)
        self._models[model] = replica.version, self._ray.put(parts)
        return model

    def retire(self, model: int) -> None:
        del self._models[model]  # the last reference: the object store forgets it

    def submit(self, kind: str, model: int, *arguments: Any) -> int:
        job = next(self._numbers)
        version, parts = self._models[model]
        self._jobs[job] = self._play.remote(self._digest, self._recipe, model, version, parts, kind, arguments)
        return job

    def wait(self, jobs: Collection[int]) -> tuple[int, Any]:
        references = {self._jobs[job]: job for job in jobs}
        ready, _ = self._ray.wait(list(references), num_returns=1)
        job = references[ready[0]]
        try:
            reply = self._ray.get(ready[0])
        except self._ray.exceptions.RayError as error:
            reason = _reason(error)
            raise AdagqError(f"Ray gave up a task after {RETRIES} lost workers: {reason}; out of memory?") from None
        del self._jobs[job]
        return job, result_of(reply)

    def close(self) -> None:
        self._jobs.clear()
        self._models.clear()
        if self._owned:
            self._ray.shutdown()


@contextlib.contextmanager
def open_ray(workers: str) -> Iterator[Pool]:
    """Connect as `--workers` says, and leave with the block."""
    pool = RayPool(address_of(workers))
    try:
        yield pool
    finally:
        pool.close()


def address_of(workers: str) -> str:
    """Return the address in a setting of `--workers`.

    >>> address_of("ray"), address_of("ray:auto"), address_of("ray:10.0.0.5:6379"), address_of("ray://10.0.0.5:10001")
    ('', 'auto', '10.0.0.5:6379', 'ray://10.0.0.5:10001')
    """
    if workers == "ray" or workers.startswith("ray://"):
        return workers.removeprefix("ray") if workers == "ray" else workers
    if workers.startswith("ray:") and len(workers) > len("ray:"):
        return workers.removeprefix("ray:")
    raise ConfigError(f"workers = {workers!r}: must be a number, ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT")


def _connect(ray: Any, address: str) -> None:
    options: dict[str, Any] = {"address": address} if address else {"num_cpus": cores(), "include_dashboard": False}
    # Ray gives its workers the least priority: beside any other program they would stand still.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **options)
    except Exception as error:  # of the network, of another version of Ray or Python, of a cluster that is not there
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        raise AdagqError(f"{where} cannot be reached: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Return Ray's first line; where that only announces a trace, the last as well.

    >>> _reason(ValueError("Initialization failure from server:\\nTraceback:\\nRuntimeError: no memory"))
    'Initialization failure from server: RuntimeError: no memory'
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[0]} {lines[-1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]


def _play(
    digest: str, recipe: bytes, model: int, version: int, parts: tuple[Any, ...], kind: str, arguments: tuple[Any, ...]
) -> Any:
    """Do one job; runs in a worker process of the cluster."""
    try:
        if digest not in _players:
            worker = Worker()
            worker.prepare(pickle.loads(recipe))
            _players.clear()
            _players[digest] = worker
        worker = _players[digest]
        if model not in worker.replicas:
            while len(worker.replicas) >= LIVE:
                del worker.replicas[min(worker.replicas)]
            previous, aggregate, previous_buffers, buffers = parts
            vector = previous - aggregate
            worker.replicas[model] = Replica(version, vector, buffers, aggregate, previous, previous_buffers)
        return getattr(worker, kind)(model, *arguments)
    except AdagqError as error:
        return error
    except Exception:
        return Crash(traceback.format_exc())
