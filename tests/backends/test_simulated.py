"""Worker processes: the same rows for any number of them, errors that arrive, memory that does not grow."""

import dataclasses
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from adagq import fleet as fleets
from adagq.backends.processes import Processes, open_pool
from adagq.backends.simulated import Simulated
from adagq.client import Copy
from adagq.errors import AdagqError
from adagq.federation import Schedule
from adagq.learners import TaskSpec
from adagq.methods import method_of
from adagq.rounds import federate
from toy import ToySpec

TASK = TaskSpec(data="synthetic", shape=(1, 8, 8), samples=600, model="resnet18", width=4, stem="imagenet", clients=5)


@pytest.fixture(scope="module")
def pair():
    with open_pool(2) as pool:
        yield pool


def rows(pool, spec, name: str, count: int, residual: bool = False) -> list[object]:
    method = dataclasses.replace(method_of(name), residual=residual)
    population = spec.build()
    pool.prepare(spec, population.layout)
    fleet = fleets.build(fleets.paper(clients=spec.clients), seed=3)
    simulated = Simulated(pool, population, fleet, method, seed=3, payload_scale=2.0)
    closed = islice(federate(method, simulated, Schedule(seed=3, clients=spec.clients)), count)
    return [(one.row, one.ledger) for one in closed]


@pytest.mark.parametrize("name", ["fedavg", "adagq", "adagq-fit"])
def test_two_workers_and_one_give_the_same_rows(pair, name: str) -> None:
    with open_pool(1) as alone:
        one = rows(alone, TASK, name, 3)
    assert rows(pair, TASK, name, 3) == one


def test_residuals_do_not_depend_on_who_played_the_client(pair) -> None:
    with open_pool(1) as alone:
        one = rows(alone, ToySpec(clients=7), "qsgd", 5, residual=True)
    assert rows(pair, ToySpec(clients=7), "qsgd", 5, residual=True) == one


def test_results_come_in_the_order_of_the_items(pair) -> None:
    population = ToySpec(clients=100).build()
    pair.prepare(ToySpec(clients=100), population.layout)
    pair.broadcast(Copy.first(0, *population.initial(0)))
    chunks = [(n, n + 1) for n in range(100)]
    assert len(list(pair.run("evaluate", chunks))) == 100
    assert rows(pair, ToySpec(clients=100), "fedavg", 1)[0][0]["clients"] == 100


def test_a_workers_error_is_raised_here(pair) -> None:
    spec = TaskSpec(data="digits", clients=2000)
    with pytest.raises(AdagqError):
        pair.prepare(spec, TASK.build().layout)
    with pytest.raises(RuntimeError, match="AttributeError"):
        list(pair.run("no_such_method", [None]))


def test_a_worker_that_dies_is_named(tmp_path: Path) -> None:
    pool = Processes(tmp_path / "residuals", 2)
    try:
        pool._processes[0].kill()
        with pytest.raises(AdagqError, match=r"ended \(exit code -9\)"):
            pool.prepare(ToySpec(), ToySpec().layout)
    finally:
        pool.close()


def test_workers_leave_with_their_parent() -> None:
    script = (
        "import os, time\n"
        "from adagq.backends.processes import open_pool\n"
        "if __name__ == '__main__':\n"
        "    with open_pool(2) as pool:\n"
        "        print(*(process.pid for process in pool._processes), flush=True)\n"
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


@pytest.mark.slow
def test_memory_does_not_grow_with_the_clients(tmp_path: Path) -> None:
    """1,000 clients of a million parameters in under 2 GB, all processes together."""
    script = tmp_path / "many.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_simulated import rows, ToySpec\n"
        "from adagq.backends.processes import open_pool\n"
        "from adagq.vectors import Layout\n"
        "if __name__ == '__main__':\n"
        "    with open_pool(2) as pool:\n"
        "        rows(pool, ToySpec(clients=1000, layout=Layout.of_sizes([1_000_000])), 'fedavg', 2)\n"
        "        for pid in ['self', *(process.pid for process in pool._processes)]:\n"
        "            print(*(line.split()[1] for line in open(f'/proc/{pid}/status') if 'VmHWM' in line))\n"
    )
    here = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parent.parent)])
    environment = {**os.environ, "PYTHONPATH": here}
    command = [sys.executable, str(script), str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    peaks = [int(kilobytes) for kilobytes in done.stdout.split()]
    assert len(peaks) == 3
    assert sum(peaks) < 2e6
