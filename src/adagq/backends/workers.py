"""Workers play clients: one population, one model copy and one torch thread each.

A client has no state of its own but the residual of error feedback, which lives in a file that all workers
map; so any worker may play any client, and results do not depend on how many workers there are.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from adagq.client import Copy, Population, probe, work
from adagq.errors import NonFiniteError
from adagq.messages import Report, Sync, Task, Update
from adagq.vectors import Layout


class Recipe(Protocol):
    """How a worker makes its population: a small picklable value, such as a frozen config."""

    def build(self) -> Population: ...


@dataclass
class Worker:
    """Plays one client after another."""

    residuals: Path
    population: Population | None = None
    copy: Copy | None = None

    def prepare(self, recipe: Recipe) -> None:
        self.population = recipe.build()
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # sums depend on the number of threads; parallelism is over clients

    def probe(self, sync: Sync) -> Report:
        return probe(self._clients().learner(sync.client), self._model(), sync)

    def work(self, task: Task) -> Update | None:
        """Return the update; None if training left a number that is not finite: then nothing is sent."""
        rows = self._residual_rows() if task.residual else None
        residual = None if rows is None else np.array(rows[task.client])
        try:
            update, rest = work(self._clients().learner(task.client), self._model(), task, residual)
        except NonFiniteError:
            return None
        if rows is not None:
            rows[task.client] = rest
        return update

    def evaluate(self, samples: tuple[int, int]) -> tuple[float, float]:
        """Return (accuracy, loss) of the model that was broadcast, on these test samples."""
        model = self._model()
        return self._clients().evaluate(model.vector, model.buffers, *samples)

    def _clients(self) -> Population:
        assert self.population is not None, "prepare the pool first"
        return self.population

    def _model(self) -> Copy:
        assert self.copy is not None, "broadcast a model first"
        return self.copy

    def _residual_rows(self) -> "np.memmap[Any, np.dtype[np.float32]]":
        shape = (self._clients().clients, self._clients().layout.elements)
        return np.memmap(self.residuals, np.float32, "r+", shape=shape)


class Pool(ABC):
    """Worker processes, or this process alone."""

    def __init__(self, residuals: Path) -> None:
        self.residuals = residuals

    def clear_residuals(self, elements: int) -> None:
        """Forget every client's residual; the file is sparse and takes no room until there is one."""
        with self.residuals.open("wb") as file:
            file.truncate(4 * elements)

    @abstractmethod
    def prepare(self, recipe: Recipe, layout: Layout) -> None:
        """Have every worker build the population."""

    @abstractmethod
    def broadcast(self, copy: Copy) -> None:
        """Give every worker the model."""

    @abstractmethod
    def run(self, kind: str, items: Sequence[Any]) -> Iterator[Any]:
        """Call the workers' method `kind` on every item; yield the results in order."""


class Alone(Pool):
    """This process plays all clients: nothing to start, nothing to copy."""

    def __init__(self, residuals: Path) -> None:
        super().__init__(residuals)
        self._worker = Worker(residuals)

    def prepare(self, recipe: Recipe, layout: Layout) -> None:
        self._worker.prepare(recipe)

    def broadcast(self, copy: Copy) -> None:
        self._worker.copy = copy

    def run(self, kind: str, items: Sequence[Any]) -> Iterator[Any]:
        return map(getattr(self._worker, kind), items)
