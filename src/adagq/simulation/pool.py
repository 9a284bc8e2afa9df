"""Worker processes that train the clients: one population, one model at a time and one torch thread each.

    pool.prepare(recipe, layout)                  # every worker builds the population
    model = pool.publish(replica)                 # a model for the jobs to come
    job = pool.submit("work", model, task, state)
    job, result = pool.wait([job, …])             # whichever is done first
    pool.retire(model)                            # no job needs it any more

A client's state is a named dictionary of arrays. It travels with the job and comes back with the result, so any worker
may play any client, and results do not depend on how many workers there are. A new kind of pool is one
more subclass of `Pool`.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from adagq.client.learner import Population
from adagq.client.replica import Replica
from adagq.client.work import probe, work
from adagq.core.codec import Arrays
from adagq.core.errors import AdagqError, NonFiniteError
from adagq.core.messages import Report, Sync, Task, Update
from adagq.core.vectors import Layout

Worked = tuple[Update | None, Arrays]


@dataclass(frozen=True, slots=True)
class Crash:
    """A worker's reply where its code failed."""

    trace: str


def result_of(reply: Any) -> Any:
    """Return a worker's reply; raise the error that it stands for."""
    if isinstance(reply, AdagqError):
        raise reply
    if isinstance(reply, Crash):
        raise RuntimeError(f"a worker process failed:\n{reply.trace}")
    return reply


class Recipe(Protocol):
    """How a worker makes its population: a small picklable value, such as a frozen config."""

    def build(self) -> Population: ...


@dataclass
class Worker:
    """Plays one client after another."""

    population: Population | None = None
    replicas: dict[int, Replica] = field(default_factory=dict)  # by the number that `publish` gave

    def prepare(self, recipe: Recipe) -> None:
        self.population = recipe.build()
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # sums depend on the number of threads; parallelism is over clients

    def probe(self, model: int, sync: Sync) -> Report:
        return probe(self._clients().learner(sync.client), self.replicas[model], sync)

    def work(self, model: int, task: Task, state: Arrays) -> Worked:
        """Return the update and the client's new state; None and the old one if training diverged."""
        try:
            return work(self._clients().learner(task.client), self.replicas[model], task, state)
        except NonFiniteError:
            return None, state

    def exchange(self, model: int, sync: Sync, task: Task, state: Arrays) -> tuple[Report, Update | None, Arrays]:
        """Probe and work, for a task that came with its sync."""
        return self.probe(model, sync), *self.work(model, task, state)

    def evaluate(self, model: int, first: int, last: int) -> tuple[float, float]:
        """Return (accuracy, loss) of a model on the test samples `first` … `last` - 1."""
        replica = self.replicas[model]
        return self._clients().evaluate(replica.vector, replica.buffers, first, last)

    def _clients(self) -> Population:
        assert self.population is not None, "prepare the pool first"
        return self.population


class Pool(ABC):
    """Plays clients somewhere."""

    def __init__(self) -> None:
        self._numbers = count(1)

    @abstractmethod
    def prepare(self, recipe: Recipe, layout: Layout) -> None:
        """Have every worker build the population."""

    @abstractmethod
    def publish(self, replica: Replica) -> int:
        """Make a model known to jobs that are submitted from now on; return its number."""

    @abstractmethod
    def retire(self, model: int) -> None:
        """Forget a model; all jobs that need it are done."""

    @abstractmethod
    def submit(self, kind: str, model: int, *arguments: Any) -> int:
        """Have some worker call its method `kind`; return the number of the job."""

    @abstractmethod
    def wait(self, jobs: Collection[int]) -> tuple[int, Any]:
        """Return (job, result) of one of these jobs, whichever is done first."""

    def run(self, kind: str, model: int, arguments: Collection[tuple[Any, ...]]) -> list[Any]:
        """Call the workers' method `kind` with all of these arguments; return the results in order."""
        jobs = [self.submit(kind, model, *each) for each in arguments]
        results: dict[int, Any] = {}
        while left := [job for job in jobs if job not in results]:
            job, result = self.wait(left)
            results[job] = result
        return [results[job] for job in jobs]


class InProcess(Pool):
    """This process plays all clients: nothing to start, nothing to copy. Jobs are done when they are waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._worker = Worker()
        self._waiting: dict[int, tuple[str, int, tuple[Any, ...]]] = {}

    def prepare(self, recipe: Recipe, layout: Layout) -> None:
        self._waiting.clear()
        self._worker.prepare(recipe)

    def publish(self, replica: Replica) -> int:
        model = next(self._numbers)
        self._worker.replicas[model] = replica
        return model

    def retire(self, model: int) -> None:
        del self._worker.replicas[model]

    def submit(self, kind: str, model: int, *arguments: Any) -> int:
        job = next(self._numbers)
        self._waiting[job] = kind, model, arguments
        return job

    def wait(self, jobs: Collection[int]) -> tuple[int, Any]:
        job = min(jobs)
        kind, model, arguments = self._waiting.pop(job)
        return job, getattr(self._worker, kind)(model, *arguments)
