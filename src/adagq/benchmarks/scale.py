"""A crowd in the simulator: thousands of clients of whom a round sees a few; what that costs beside bare training.

    adagq bench scale --clients 10000 --cohort 100 --rounds 200

Clients are the generated `users`: uneven shares, a style and a class mix of their own. The run is an ordinary one, with
its directory, ledger, audit log and checkpoints. Bare training is what the same cohorts cost plain PyTorch, in CPU
seconds of one process, since other programs disturb those least.
"""

import contextlib
import os
import re
import resource
import tempfile
import time
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn.functional import cross_entropy

from adagq.experiments.config import Config, load_config
from adagq.experiments.runner import run as run_experiment
from adagq.experiments.runner import schedule_of
from adagq.learners.models import build_model
from adagq.learners.torch_learner import TorchPopulation

MB = 2**20
TICKS = os.sysconf("SC_CLK_TCK")
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
    begun = time.perf_counter()
    population = replace(config.task, seed=config.seed).build()
    assert isinstance(population, TorchPopulation)
    built, samples = time.perf_counter() - begun, sum(population.sizes[0]) / clients
    print(f"{clients:,} clients, {cohort} a round, {method}, {population.layout.elements:,} parameters")
    print(f"{samples:.1f} training samples each; built in {built:.1f} s")
    bare = _bare_seconds(population, config)
    del population
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run" if out is None else out
        begun, before, first = time.perf_counter(), tree_usage(), 0.0
        usage, accuracy = before, 0.0
        for number, step in enumerate(run_experiment(config, folder, workers)):
            usage, accuracy = tree_usage(), step.row["accuracy"]
            if not number:
                first, before = time.perf_counter() - begun, usage
            if (number + 1) % 50 == 0:
                print(f"round {number + 1}: {time.perf_counter() - begun:.0f} s, accuracy {accuracy:.3f}", flush=True)
        seconds = (time.perf_counter() - begun - first) / max(rounds - 1, 1)
        used = (usage.cpu_seconds - before.cpu_seconds) / max(rounds - 1, 1)
        files = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
        largest = max(files, key=lambda name: files[name])
        print(f"first round after {first:.1f} s, then {seconds:.3f} s a round")
        print(f"CPU {used:.3f} s a round, bare training {bare:.3f} s: {used / bare:.2f} times")
        print(f"peak memory {usage.own_mb:.0f} MB in the main process, {usage.worker_mb:.0f} MB in the largest worker")
        print(f"run directory {sum(files.values()) / MB:.1f} MB, of which {largest} {files[largest] / MB:.1f} MB")
        print(f"accuracy {accuracy:.3f}; load {os.getloadavg()[0]:.1f}")


class Usage(NamedTuple):
    """CPU seconds of this process and its descendants, and their peak memory."""

    cpu_seconds: float
    own_mb: float
    worker_mb: float  # of the largest descendant


def tree_usage() -> Usage:
    """Return what this process and all below it have used; only this one where there is no /proc."""
    own = os.times()
    cpu = own.user + own.system
    own_mb, worker_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 0.0
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text("utf-8", "replace").rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS
    below = {os.getpid()}
    while more := {pid for pid, (parent, _) in parents.items() if parent in below} - below:
        below |= more
    for pid in below - {os.getpid()}:
        cpu += parents[pid][1]
        with contextlib.suppress(OSError):
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            worker_mb = max(worker_mb, int(peak[1]) / 1024 if peak else 0.0)
    return Usage(cpu, own_mb, worker_mb)


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
            for _ in range(ceil(config.row(config.methods[0]).epochs)):
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
