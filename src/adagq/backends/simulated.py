"""Simulation: real training in worker processes, seconds from the virtual clock.

All clients hold the same model, so a worker keeps one copy for all that it plays, and the backend follows
along with the messages as a client would: what is trained on is what the payloads decode to. Updates are
handed on in client order, whoever finished first, so rows do not depend on the number of workers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.backends.clock import Clock, Scale
from adagq.backends.workers import Pool
from adagq.client import Copy, Population, receive
from adagq.codecs import Float32, decode
from adagq.fleet import Fleet
from adagq.messages import Closing, Report, Sync, Task, Update
from adagq.methods import Method
from adagq.vectors import FloatVector, Layout

TEST_CHUNK = 1000  # test samples per job; the same for any number of workers, so that sums are the same


class Simulated:
    """A `federation.Backend` over a prepared pool. One object serves one method with one seed."""

    def __init__(
        self,
        pool: Pool,
        population: Population,
        fleet: Fleet,
        method: Method,
        seed: int,
        payload_scale: float = 1.0,
    ) -> None:
        learners = map(population.learner, range(population.clients))  # one at a time: they may be large
        self._examples, held_out = zip(*((learner.examples, learner.held_out) for learner in learners), strict=True)
        timed = all(client.device.epoch_seconds is not None for client in fleet.clients)
        # Counting operations takes torch a while: only for devices whose speed is given in them.
        fleet = fleet.calibrated(self._examples, nan if timed else population.flops_per_sample)
        self._keeps_residuals = method.residual
        self._pool = pool
        self._population = population
        self._scale = Scale(payload_scale)
        self._copy = Copy.first(0, *population.initial(seed))
        self._clock = Clock(
            fleet=fleet.with_free_links() if method.free_links else fleet,
            scale=self._scale,
            elements=population.layout.elements * payload_scale,
            held_out=held_out,
            decodes_downlink=not isinstance(method.downlink, Float32),
            encodes_uplink=not isinstance(method.uplink, Float32),
            examples=self._examples,
        )
        pool.clear_residuals(population.clients * population.layout.elements)

    @property
    def layout(self) -> Layout:
        return self._population.layout

    def initial(self) -> tuple[FloatVector, FloatVector]:
        return self._copy.vector, self._copy.buffers

    def sync(self, syncs: Sequence[Sync], deadline: float = inf) -> list[Report]:
        return self._reports(syncs, self._clock.begin(syncs, deadline))

    def work(self, tasks: Sequence[Task], deadline: float = inf) -> Iterator[Update]:
        self._clock.expect(deadline)
        trained = [task for task in tasks if self._clock.trains(task)]
        real = [self._with_real_budget(task) for task in trained]
        for task, update in zip(trained, self._pool.run("work", real), strict=True):
            if update is None:
                self._clock.diverged(task.client, task.round)
            elif self._clock.arrived(task, update):
                yield update
            elif task.residual:
                self._keep(update)

    def exchange(
        self, syncs: Sequence[Sync], tasks: Sequence[Task], deadline: float
    ) -> Iterator[tuple[Report, Update]]:
        begun = self._clock.begin(syncs, together=True)
        reports = {report.client: report for report in self._reports(syncs, begun)}
        for update in self.work([task for task in tasks if task.client in reports], deadline):
            yield reports[update.client], update

    def close(self) -> Closing:
        return self._clock.close()

    def evaluate(self, vector: FloatVector, buffers: FloatVector) -> tuple[float, float]:
        self._pool.broadcast(Copy.first(self._copy.version + 1, vector, buffers))
        total = self._population.test_samples
        chunks = [(first, min(first + TEST_CHUNK, total)) for first in range(0, total, TEST_CHUNK)]
        correct = loss = 0.0
        for (first, last), score in zip(chunks, self._pool.run("evaluate", chunks), strict=True):
            correct += round(score[0] * (last - first))
            loss += score[1] * (last - first)
        return correct / total, loss / total

    def checkpoint(self) -> dict[str, NDArray[Any]]:
        """Return what the next round needs: the model that clients hold, the time, and their residuals."""
        residuals = np.fromfile(self._pool.residuals, np.float32, -1 if self._keeps_residuals else 0)
        return {
            "vector": self._copy.vector,
            "buffers": self._copy.buffers,
            "version": np.array(self._copy.version),
            "seconds": np.array(self._clock.now),
            "residuals": residuals,
        }

    def restore(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint."""
        self._copy = Copy.first(int(saved["version"]), saved["vector"], saved["buffers"])
        self._clock.now = float(saved["seconds"])
        if saved["residuals"].size:
            saved["residuals"].tofile(self._pool.residuals)

    def _reports(self, syncs: Sequence[Sync], begun: Sequence[Sync]) -> list[Report]:
        """Move the model on and return the reports of those that have begun the round."""
        self._copy = receive(self._copy, next((sync for sync in syncs if not sync.full), syncs[0]))
        self._pool.broadcast(self._copy)
        # Workers hold the model already: a sync goes to them without its payloads.
        asked = [replace(sync, payloads=(b"",), buffers=b"") for sync in begun if sync.probing]
        reports = {report.client: report for report in self._pool.run("probe", asked)}
        return [reports.get(sync.client) or self._blank(sync) for sync in begun]

    def _keep(self, update: Update) -> None:
        """Put an update that was trained and did not arrive back into its client's residual: it goes with the next."""
        shape = (self._population.clients, self.layout.elements)
        np.memmap(self._pool.residuals, np.float32, "r+", shape=shape)[update.client] += decode(update.payload)

    def _blank(self, sync: Sync) -> Report:
        return Report(sync.client, sync.round, self._examples[sync.client])

    def _with_real_budget(self, task: Task) -> Task:
        if task.budget_bytes is None:
            return task
        payloads = 1 + bool(self.layout.buffer_elements)
        return replace(task, budget_bytes=self._scale.real_bytes(task.budget_bytes, payloads))
