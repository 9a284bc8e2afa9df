"""A crowd in the simulator: thousands of clients of whom a round sees a few; what that costs beside bare training.

    adagq bench scale --clients 10000 --cohort 100 --rounds 200

Clients are the generated `users`: uneven shares, a style and a class mix of their own. The run is an ordinary one, with
its directory, ledger, audit log and checkpoints. Bare training is what the same cohorts cost plain PyTorch, in CPU
seconds of one process, since other programs disturb those least.
"""

import os
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from adagq.experiments.config import Config, load_config
from adagq.experiments.runner import run as run_experiment
from adagq.experiments.runner import schedule_of
from adagq.learners.models import build_model
from adagq.learners.torch_learner import TorchPopulation

MB = 2**20
BARE_ROUNDS = 3  # whose cohorts are trained by plain PyTorch


def settings(clients: int, cohort: int, rounds: int, method: str) -> Config:
    """Return the run: 30 samples a user on average, a small network, no target that ends it early."""
    return load_config(
        None,
        [
            "task.data='users'", "task.partition='natural'", "task.model='mlp'", "task.width=64", "task.batch_size=10",
            "task.test_samples=1000", f"task.clients={clients}", "fleet={}", "payload_scale=1.0",
            f"methods=['{method}']", "training.target=1.0", f"training.max_rounds={rounds}",
            f"training.participants={cohort}", "training.learning_rate=0.05",
        ],
    )  # fmt: skip


def run(
    clients: int, cohort: int, rounds: int, method: str = "adagq-fit", workers: int | str = 2, out: Path | None = None
) -> None:
    """Print seconds per round beside bare training, peak memory and the size of the run directory."""
    config = settings(clients, cohort, rounds, method)
    begun, cpu = time.perf_counter(), _cpu_seconds()
    population = replace(config.task, seed=config.seed).build()
    assert isinstance(population, TorchPopulation)
    built, samples = time.perf_counter() - begun, sum(population.sizes[0]) / clients
    print(f"{clients:,} clients, {cohort} a round, {method}, {population.layout.elements:,} parameters")
    print(f"{samples:.1f} training samples each; built in {built:.1f} s")
    bare = _bare_seconds(population, config)
    del population
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run" if out is None else out
        begun, cpu, first = time.perf_counter(), _cpu_seconds(), 0.0
        accuracy = 0.0
        for number, step in enumerate(run_experiment(config, folder, workers)):
            first = first or time.perf_counter() - begun
            accuracy = step.row["accuracy"]
            if (number + 1) % 50 == 0:
                print(f"round {number + 1}: {time.perf_counter() - begun:.0f} s, accuracy {accuracy:.3f}", flush=True)
        seconds = time.perf_counter() - begun
        used = _cpu_seconds() - cpu  # of workers too: they have ended
        size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
        largest = max(folder.iterdir(), key=lambda path: path.stat().st_size)
        print(f"first round after {first:.1f} s; {rounds} rounds in {seconds:.1f} s, {seconds / rounds:.3f} s each")
        ratio = used / rounds / bare
        print(f"CPU {used / rounds:.3f} s a round, start included; bare training {bare:.3f} s: {ratio:.2f} times")
        own, worker = (
            resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        print(f"peak memory {own:.0f} MB in the main process, {worker:.0f} MB in the largest worker")
        print(f"run directory {size / MB:.1f} MB, of which {largest.name} {largest.stat().st_size / MB:.1f} MB")
        print(f"accuracy {accuracy:.3f}; load {os.getloadavg()[0]:.1f}")


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _bare_seconds(population: TorchPopulation, config: Config) -> float:
    """Return the CPU seconds of a round in plain PyTorch: the clients of the first rounds, one after the other."""
    schedule = schedule_of(config.training, config.seed)
    first = population.learner(0)
    torch.set_num_threads(1)
    model = build_model(config.task.model, tuple(first._train.inputs.shape[1:]), config.task.classes, config.task.width)
    for _ in range(20):  # torch is slow at first
        _train(model, first._train.batch(first._train.index), config)
    seconds = 0.0
    for round in range(1, BARE_ROUNDS + 1):
        cohort = schedule.cohort(round, range(population.clients))
        samples = [population.learner(client)._train for client in cohort]
        begun = time.process_time()
        for one in samples:
            _train(model, one.batch(one.index), config)
        seconds += time.process_time() - begun
    return seconds / BARE_ROUNDS


def _train(model: torch.nn.Module, samples: tuple[torch.Tensor, torch.Tensor], config: Config) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=config.training.learning_rate)
    inputs, targets = samples
    model.train()
    for rows in torch.split(torch.randperm(len(targets)), config.task.batch_size):
        optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(model(inputs[rows]), targets[rows]))
        optimizer.step()
