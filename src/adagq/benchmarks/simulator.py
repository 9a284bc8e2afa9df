"""`adagq bench simulator`: rounds of the simulator against bare PyTorch loops that take the same SGD steps.

The bare loop is `workers` processes of one torch thread, each training its share of the clients and nothing
else: no messages, no clock, no aggregate. The model is a ResNet-18 of width 16 (0.7 M parameters). The two
take turns and the fastest of each counts, since other programs only ever make a round slower.
"""

import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection

from adagq.client.learner import Population
from adagq.learners import LearningTask
from adagq.methods.table import method_of
from adagq.rounds import RoundResult, Schedule, loop_of
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.pool import Pool
from adagq.simulation.processes import open_pool

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
            fastest = _fastest(_loops(pool, population, methods), bare, rounds)
        print(f"{'bare PyTorch':<14} {fastest['bare']:.3f} s per round")
        for name in methods:
            overhead = 100 * (fastest[name] / fastest["bare"] - 1)
            print(f"{name:<14} {fastest[name]:.3f} s, {overhead:+.1f} %, {where}")


def _loops(pool: Pool, population: Population, methods: Sequence[str]) -> dict[str, Iterator[RoundResult]]:
    loops = {}
    for name in methods:
        method = method_of(name)
        backend = Simulated(pool, population, fleets.build(fleets.paper(), 0), method, 0)
        loops[name] = loop_of(method)(method, backend, Schedule(seed=0), None)
    return loops


def _fastest(loops: Mapping[str, Iterator[RoundResult]], bare: "BareLoops", rounds: int) -> dict[str, float]:
    """Return the seconds of the fastest round of each, in turns; the first of each warms up."""
    fastest = dict.fromkeys(("bare", *loops), float("inf"))
    for _ in range(rounds + 1):
        fastest["bare"] = min(fastest["bare"], bare.round())
        for name, loop in loops.items():
            begun = time.perf_counter()
            next(loop)
            fastest[name] = min(fastest[name], time.perf_counter() - begun)
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
    import torch
    from torch.nn.functional import cross_entropy

    population = TASK.build()
    torch.set_num_threads(1)
    from adagq.learners.models import build_model

    model = build_model(TASK.model, SHAPE, TASK.classes, TASK.width, TASK.stem)
    shares = [population.learner(client).examples for client in range(worker, TASK.clients, workers)]
    inputs, targets = torch.randn(max(shares), *SHAPE), torch.randint(TASK.classes, (max(shares),))
    pipe.send(True)
    while True:
        try:
            pipe.recv()
        except EOFError:
            return
        for examples in shares:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            model.train()
            for rows in torch.split(torch.randperm(examples), TASK.batch_size):
                if len(rows) < TASK.batch_size // 4:
                    continue
                optimizer.zero_grad()
                torch.autograd.backward(cross_entropy(model(inputs[rows]), targets[rows]))
                optimizer.step()
        pipe.send(True)
