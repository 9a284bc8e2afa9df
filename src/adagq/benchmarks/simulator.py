"""`adagq bench simulator`: rounds of the simulator against bare PyTorch loops that take the same SGD steps.

The bare loop is `workers` processes of one torch thread, each training its share of the clients and nothing
else: no messages, no clock, no aggregate. The model is a ResNet-18 of width 16 (0.7 M parameters). The two
take turns and the fastest of each counts, since other programs only ever make a round slower.

`--ray` adds workers on Ray, and Flower's own simulation of the same task: FedAvg on Ray, one core an actor, the same
steps on the same samples (`flower_simulation`).
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from adagq.client.learner import Population
from adagq.learners import LearningTask
from adagq.methods.table import method_of
from adagq.rounds import RoundResult, Schedule, loop_of
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.pool import Pool
from adagq.simulation.processes import open_pool

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

SHAPE = (3, 32, 32)
TASK = LearningTask(
    data="synthetic",
    shape=SHAPE,
    samples=12000,
    model="resnet18",
    width=16,
    stem="imagenet",
    clients=20,
    samples_per_client=500,
    test_samples=32,
)


def run(
    workers: int = 2, rounds: int = 3, methods: tuple[str, ...] = ("ideal", "adagq-fit"), on_ray: bool = False
) -> None:
    """Print seconds per round of both, and the simulator's overhead; also of workers on Ray if asked."""
    population = TASK.build()
    examples = sum(population.learner(client).examples for client in range(TASK.clients))
    print(f"{population.layout.elements:,} parameters, {examples:,} samples per round, {workers} workers")
    places: list[tuple[int | str, str]] = [(workers, "processes"), ("ray", "Ray")]
    for pool_of, where in places[: 1 + on_ray]:
        with open_pool(pool_of) as pool, BareLoops(workers) as bare:
            pool.prepare(TASK, population.layout)
            loops = _loops(pool, population, methods)
            timed = {name: partial(_seconds_of, loop) for name, loop in loops.items()}
            _print(_fastest(bare.round, timed, rounds), where)
    if on_ray:
        from adagq.benchmarks.flower_simulation import FlowerRounds

        with FlowerRounds(workers, rounds + 1) as flower, BareLoops(workers) as bare:
            _print(_fastest(bare.round, {"Flower FedAvg": flower.round}, rounds), "Flower's simulation on Ray")


def _print(fastest: Mapping[str, float], where: str) -> None:
    print(f"{'bare PyTorch':<14} {fastest['bare']:.3f} s per round")
    for name, seconds in fastest.items():
        if name != "bare":
            print(f"{name:<14} {seconds:.3f} s, {100 * (seconds / fastest['bare'] - 1):+.1f} %, {where}", flush=True)


def _loops(pool: Pool, population: Population, methods: Sequence[str]) -> dict[str, Iterator[RoundResult]]:
    loops = {}
    for name in methods:
        method = method_of(name)
        backend = Simulated(pool, population, fleets.build(fleets.paper(), 0), method, 0)
        loops[name] = loop_of(method)(method, backend, Schedule(seed=0), None)
    return loops


def _seconds_of(loop: Iterator[RoundResult]) -> float:
    begun = time.perf_counter()
    next(loop)
    return time.perf_counter() - begun


def _fastest(bare: Callable[[], float], others: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the seconds of the fastest round of each, in turns; the first of each warms up."""
    fastest = dict.fromkeys(("bare", *others), float("inf"))
    for _ in range(rounds + 1):
        for name, seconds in (("bare", bare), *others.items()):
            fastest[name] = min(fastest[name], seconds())
    return fastest


class BareLoops:
    """The same steps without us: one process per worker, a share of the clients each."""

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        for worker in range(workers):
            ours, theirs = context.Pipe()
            context.Process(target=_bare, args=(theirs, worker, workers), daemon=True).start()
            self._pipes.append(ours)
        for pipe in self._pipes:
            pipe.recv()  # ready

    def round(self) -> float:
        """Return the seconds until the last process has trained its clients."""
        begun = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(True)
        for pipe in self._pipes:
            pipe.recv()
        return time.perf_counter() - begun

    def __enter__(self) -> "BareLoops":
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()


def _bare(pipe: Connection, worker: int, workers: int) -> None:
    model, inputs, targets, shares = bare_task()
    pipe.send(True)
    while True:
        try:
            pipe.recv()
        except EOFError:
            return
        for examples in shares[worker::workers]:
            bare_epoch(model, inputs[:examples], targets[:examples])
        pipe.send(True)


def bare_task() -> tuple["Module", "Tensor", "Tensor", list[int]]:
    """Return a model, samples for the largest share, and the examples of every client's; one torch thread from now."""
    import torch

    from adagq.learners.models import build_model

    population = TASK.build()
    torch.set_num_threads(1)
    model = build_model(TASK.model, SHAPE, TASK.classes, TASK.width, TASK.stem)
    shares = [population.learner(client).examples for client in range(TASK.clients)]
    return model, torch.randn(max(shares), *SHAPE), torch.randint(TASK.classes, (max(shares),)), shares


def bare_epoch(model: "Module", inputs: "Tensor", targets: "Tensor") -> None:
    """Take one client's SGD steps."""
    import torch
    from torch.nn.functional import cross_entropy

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train()
    for rows in torch.split(torch.randperm(len(targets)), TASK.batch_size):
        if len(rows) < TASK.batch_size // 4:
            continue
        optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(model(inputs[rows]), targets[rows]))
        optimizer.step()
