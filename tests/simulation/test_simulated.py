"""Worker processes: the same rows for any number of them, errors that arrive, memory that does not grow."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

from adagq.client.replica import Replica
from adagq.core.errors import AdagqError
from adagq.core.messages import Arrival
from adagq.core.vectors import Layout
from adagq.learners import LearningTask
from adagq.methods.table import method_of
from adagq.rounds import Schedule, synchronous
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.cache import CachedPool
from adagq.simulation.pool import Pool
from adagq.simulation.processes import ProcessPool, open_pool
from toy import ToyPopulation, ToySpec

TASK = LearningTask(
    data="synthetic", shape=(1, 8, 8), samples=600, model="resnet18", width=4, stem="imagenet", clients=5
)


@pytest.fixture(scope="module")
def pair():
    with open_pool(2) as pool:
        yield pool


class Watched(Simulated):
    """The simulator, with a list of what it handed over and of how many models it holds in its pool."""

    def __init__(self, *arguments, **settings) -> None:
        super().__init__(*arguments, **settings)
        self.arrivals: list[tuple[float, int]] = []
        self.models: list[int] = []

    def receive(self, until: float) -> Arrival | None:
        arrival = super().receive(until)
        if arrival is not None:
            self.arrivals.append((arrival.seconds, arrival.client))
        return arrival

    def settle(self):
        self.models.append(models_in(self._pool))
        return super().settle()


def models_in(pool: Pool) -> int:
    """Return how many models a pool holds, published and not retired."""
    if isinstance(pool, CachedPool):
        assert len(pool._digests) == models_in(pool._pool)
        return len(pool._digests)
    return len(pool._slots) if isinstance(pool, ProcessPool) else len(pool._worker.replicas)


def watched(pool: Pool, spec, name: str, **fleet) -> Watched:
    population = spec.build()
    pool.prepare(spec, population.layout)
    built = fleets.build(fleets.paper(clients=spec.clients, **fleet), seed=3)
    return Watched(pool, population, built, method_of(name), seed=3, payload_scale=2.0)


def rows(pool, spec, name: str, count: int, exchanges: int = 2, **fleet) -> list[object]:
    backend = watched(pool, spec, name, **fleet)
    schedule = Schedule(seed=3, exchanges=exchanges)
    closed = list(islice(synchronous(method_of(name), backend, schedule), count))
    seconds = [second for second, _ in backend.arrivals]
    assert seconds == sorted(seconds)
    return [(one.row, one.ledger, one.incidents) for one in closed] + backend.arrivals


@pytest.mark.parametrize("name", ["fedavg", "adagq", "adagq-fit"])
def test_two_workers_and_one_give_the_same_rows(pair, name: str) -> None:
    with open_pool(1) as alone:
        one = rows(alone, TASK, name, 3)
    assert rows(pair, TASK, name, 3) == one


def test_residuals_do_not_depend_on_who_played_the_client(pair) -> None:
    with open_pool(1) as alone:
        one = rows(alone, ToySpec(clients=7), "qsgd+residual", 5)
    assert rows(pair, ToySpec(clients=7), "qsgd+residual", 5) == one


@pytest.mark.parametrize("exchanges", [1, 2])
@pytest.mark.parametrize("name", ["adagq", "adagq-fit", "topk"])
def test_with_failures_two_workers_and_one_give_the_same_rows(pair, name: str, exchanges: int) -> None:
    """Rows, ledgers, incidents and the order of the arrivals; a client's state travels with its jobs."""
    spec = ToySpec(clients=7, layout=Layout.of_sizes([500]))
    with open_pool(1) as alone:
        one = rows(alone, spec, name, 8, exchanges, drop_rate=0.3)
    assert rows(pair, spec, name, 8, exchanges, drop_rate=0.3) == one
    assert any(incidents for _, _, incidents in one[:8])


@dataclass(frozen=True)
class SlowSpec(ToySpec):
    """The first of its chunks takes longest, so that later ones are done before it."""

    def build(self) -> "Slow":
        return Slow(self)


class Slow(ToyPopulation):
    def evaluate(self, vector, buffers, first=0, last=None) -> tuple[float, float]:
        time.sleep(0.3 if first == 0 else 0.0)
        return float(first), float(last)


def test_results_come_in_the_order_of_the_items(pair) -> None:
    """`run` sorts them; `wait` hands over whichever is done first."""
    pair.prepare(SlowSpec(), SlowSpec().layout)
    model = pair.publish(Replica.first(0, *SlowSpec().build().initial(0)))
    chunks = [(n, n + 1) for n in range(100)]
    assert pair.run("evaluate", model, chunks) == [(float(first), float(last)) for first, last in chunks]
    jobs = [pair.submit("evaluate", model, *chunk) for chunk in chunks]
    done = [pair.wait([job])[0] if job == jobs[0] else pair.wait(jobs[1:])[0] for job in (jobs[1], jobs[0])]
    assert done[0] != jobs[0]
    assert done[1] == jobs[0]
    assert rows(pair, ToySpec(clients=100), "fedavg", 1)[0][0]["clients"] == 100


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("cached", [False, True])
def test_models_are_retired_when_no_job_needs_them(pair, tmp_path: Path, workers: int, cached: bool) -> None:
    with open_pool(1) as alone:
        pool: Pool = alone if workers == 1 else pair
        pool = CachedPool(pool, tmp_path / "memory") if cached else pool
        backend = watched(pool, ToySpec(clients=6), "qsgd", drop_rate=0.3)
        schedule = Schedule(seed=3, participants=3, deadline_factor=1.01)
        list(islice(synchronous(method_of("qsgd"), backend, schedule), 30))
    assert len(backend.models) >= 30
    assert max(backend.models) <= 2


def test_a_workers_error_is_raised_here(pair) -> None:
    spec = LearningTask(data="digits", clients=2000)
    with pytest.raises(AdagqError):
        pair.prepare(spec, TASK.build().layout)
    pair.prepare(ToySpec(), ToySpec().layout)
    model = pair.publish(Replica.first(0, *ToySpec().build().initial(0)))
    with pytest.raises(RuntimeError, match="AttributeError"):
        pair.run("no_such_method", model, [()])


def test_a_worker_that_dies_is_named() -> None:
    pool = ProcessPool(2)
    try:
        pool._processes[0].kill()
        with pytest.raises(AdagqError, match=r"ended \(exit code -9\)"):
            pool.prepare(ToySpec(), ToySpec().layout)
    finally:
        pool.close()


def test_workers_leave_with_their_parent() -> None:
    script = (
        "import os, time\n"
        "from adagq.simulation.processes import open_pool\n"
        "if __name__ == '__main__':\n"
        "    with open_pool(2) as pool:\n"
        "        print(*pool.pids, flush=True)\n"
        "        os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() and not _zombie(pid) for pid in pids):
            return
        subprocess.run(["sleep", "0.1"])
    pytest.fail(f"workers {pids} are still there")


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[1].startswith("Z")
    except OSError:
        return True


def in_process(folder: Path, body: str, timeout: float) -> list[str]:
    """Run these lines with a pool of two workers in a process of its own; return the words that they print."""
    script = folder / "script.py"
    script.write_text(
        "from test_simulated import Layout, ToySpec, open_pool, rows\n"
        "if __name__ == '__main__':\n"
        "    with open_pool(2) as pool:\n" + "".join(f"        {line}\n" for line in body.splitlines())
    )
    here = [str(Path(__file__).parent), str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, here))}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=timeout)
    return done.stdout.split()


def test_large_states_both_ways_do_not_block_the_pipes(tmp_path: Path) -> None:
    """40 clients whose residuals of 0.6 MB go out with the job and come back with the result, three rounds."""
    spec = "ToySpec(clients=40, layout=Layout.of_sizes([150_000]))"
    body = f"print(rows(pool, {spec}, 'topk', 3)[2][0]['clients'])"
    assert in_process(tmp_path, body, timeout=180) == ["40"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_clients(tmp_path: Path) -> None:
    """1,000 clients of a million parameters in under 2 GB, all processes together."""
    body = (
        "rows(pool, ToySpec(clients=1000, layout=Layout.of_sizes([1_000_000])), 'fedavg', 2)\n"
        "for pid in ['self', *pool.pids]:\n"
        "    print(*(line.split()[1] for line in open(f'/proc/{pid}/status') if 'VmHWM' in line))\n"
    )
    peaks = [int(kilobytes) for kilobytes in in_process(tmp_path, body, timeout=600)]
    assert len(peaks) == 3
    assert sum(peaks) < 2e6
