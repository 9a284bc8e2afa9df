"""`adagq bench soak`: real nodes on this machine, and every few rounds something goes wrong with one of them.

    kill       the node and all that it started, as by a power cut; it comes back with the next fault
    restart    the same, and it comes back at once
    hang       the node's processes are stopped; they go on with the next fault
    garbage    what the node sends is damaged, until the next fault
    slow       the node trains several times a round longer, until the next fault

Nodes train softmax regression on digits (`flower.local.soak_app`) and the server runs any method. With every fault the
memory, threads and open files of the server's processes are written down: they must not grow. In the end the audit log
is verified, and `failures` says what did not hold.
"""

import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from adagq.core.errors import AdagqError
from adagq.core.jsonl import read_lines

if TYPE_CHECKING:
    from adagq.flower.local.cluster import Federation

FAULTS: Final = ("kill", "restart", "hang", "garbage", "slow")
SERVERS: Final = {"server app": b"flwr-serverapp", "SuperLink": b"flower-superlink"}
LOOK_SECONDS: Final = 0.1
STALL_SECONDS: Final = 300.0  # without a row: the run has stalled
SLOW_ROUNDS: Final = 3.0  # how many usual rounds a slow node trains longer
FLAT: Final = 1.15  # how much more memory than after a fifth of the rounds is no growth
ROWS, INCIDENTS = "rows.jsonl", "incidents.jsonl"


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong, with whom, after which round."""

    round: int
    node: int
    kind: str


@dataclass
class Soaked:
    """What a soak run was like."""

    target: float
    rounds: int
    faults: list[Fault] = field(default_factory=list)
    usage: list[dict[str, Any]] = field(default_factory=list)  # a line per fault: memory, threads, files
    rows: list[dict[str, Any]] = field(default_factory=list)
    incidents: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def failures(self) -> list[str]:
        """Return what did not hold."""
        found = []
        if [row["round"] for row in self.rows] != list(range(1, self.rounds + 1)):
            found.append(f"{len(self.rows)} of {self.rounds} rounds")
        if self.rows and self.rows[-1]["accuracy"] < self.target:
            found.append(f"accuracy {self.rows[-1]['accuracy']:.3f}, the target is {self.target}")
        later = self.usage[len(self.usage) // 5 :]
        for name in SERVERS:
            first, last = (line[name]["megabytes"] for line in (later[0], later[-1]))
            if last > FLAT * first:
                found.append(f"{name}: memory grew from {first:.0f} to {last:.0f} MB")
        faulty = {fault.node for fault in self.faults}
        refused = {one["client"] for one in self.incidents if one["kind"] == "refused"}
        if refused - faulty:
            found.append(f"refused without a fault: clients {sorted(refused - faulty)}")
        return found


def soak(
    nodes: int,
    rounds: int,
    folder: Path,
    *,
    every: int = 5,
    method: str = "adagq-fit",
    target: float = 0.9,
    seed: int = 0,
    progress: Callable[[str], None] = print,
) -> Soaked:
    """Run it in `folder` and return what it was like; AdagqError if the run stalls or ends early."""
    from adagq.experiments.verify import verify
    from adagq.flower.local.cluster import Federation
    from adagq.flower.local.soak_app import FAULT, write_soak_app

    out, begun = folder / "run", time.monotonic()
    soaked, rng = Soaked(target, rounds), random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    with Federation(0, folder / "flower") as federation:
        federation.nodes = nodes
        for number in range(nodes):
            federation.start_node(number, **{FAULT: str(_fault_file(folder, number))})
        settings = {"method": method, "num-server-rounds": rounds, "nodes": nodes, "seed": seed, "out": str(out)}
        running = federation.run(write_soak_app(folder / "app"), settings)
        heal: Callable[[], None] = lambda: None  # noqa: E731
        for count in _rounds(out, rounds, lambda: running.poll() is None, federation):
            if count % every == 0 and count < rounds:
                heal()
                soaked.usage.append(_usage(federation, count))
                fault = Fault(count, rng.randrange(nodes), rng.choice(FAULTS))
                soaked.faults.append(fault)
                heal = _strike(federation, fault, folder, _usual_seconds(out))
                progress(_line(soaked))
        heal()
        soaked.usage.append(_usage(federation, rounds))
        running.wait(60)
    soaked.rows, soaked.incidents = list(read_lines(out / ROWS)), list(read_lines(out / INCIDENTS))
    soaked.seconds = time.monotonic() - begun
    verify(out)
    return soaked


def run(save: Path | None = None, **options: Any) -> list[str]:
    """Run it, print what it was like, and return what did not hold."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="adagq-soak-") as folder:
        soaked = soak(folder=Path(folder), **options)
    rows, kinds = soaked.rows, [one["kind"] for one in soaked.incidents]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))) or "none"
    print(f"{len(rows)} rounds in {soaked.seconds:.0f} s, accuracy {rows[-1]['accuracy']:.3f}; incidents: {counts}")
    seconds = [row["round_seconds"] for row in rows]
    fifth = max(len(rows) // 5, 1)
    print(
        f"round seconds: median {median(seconds):.2f}, first fifth {median(seconds[:fifth]):.2f}, "
        f"last fifth {median(seconds[-fifth:]):.2f}, longest {max(seconds):.1f}"
    )
    for name in SERVERS:
        print(f"{name}: " + " ".join(f"{line[name]['megabytes']:.0f}" for line in soaked.usage) + " MB")
    failures = soaked.failures()
    print("held" if not failures else "did not hold: " + "; ".join(failures))
    if save is not None:
        save.write_text(json.dumps(asdict(soaked) | {"failures": failures}, indent=1) + "\n", "utf-8")
    return failures


def _rounds(out: Path, rounds: int, runs: Callable[[], bool], federation: "Federation") -> Iterator[int]:
    """Yield the number of closed rounds as they close; AdagqError if that takes too long."""
    known, looked = 0, time.monotonic()
    while known < rounds:
        alive = runs()
        count = len(list(read_lines(out / ROWS))) if (out / ROWS).is_file() else 0
        if count > known:
            yield from range(known + 1, count + 1)
            known, looked = count, time.monotonic()
        elif not alive or time.monotonic() - looked > STALL_SECONDS:
            what = "stalled" if alive else "ended"
            raise AdagqError(f"the run {what} after {known} of {rounds} rounds: {federation.tail('run', 20)}")
        time.sleep(LOOK_SECONDS)


def _strike(federation: "Federation", fault: Fault, folder: Path, usual_seconds: float) -> Callable[[], None]:
    """Let something go wrong; return what makes it right again."""
    from adagq.flower.local.processes import Process, descendants
    from adagq.flower.local.soak_app import FAULT

    name, file = f"node-{fault.node}", _fault_file(folder, fault.node)

    def start() -> None:
        federation.start_node(fault.node, **{FAULT: str(file)})

    if fault.kind in ("kill", "restart"):
        federation.processes.kill(name)
        if fault.kind == "kill":
            return start
        start()
    elif fault.kind == "hang":
        pid = federation.processes.pid(name)
        stopped = [Process(pid), *descendants(pid)]
        for process in stopped:
            process.send(signal.SIGSTOP)

        def go_on() -> None:
            for process in stopped:
                process.send(signal.SIGCONT)

        return go_on
    else:
        file.write_text("garbage" if fault.kind == "garbage" else f"slow {SLOW_ROUNDS * usual_seconds:.1f}", "utf-8")
        return lambda: file.unlink(missing_ok=True)
    return lambda: None


def _fault_file(folder: Path, node: int) -> Path:
    return folder / f"fault-{node}"


def _usual_seconds(out: Path) -> float:
    return float(median(row["round_seconds"] for row in read_lines(out / ROWS)))


def _usage(federation: "Federation", round: int) -> dict[str, Any]:
    """Return megabytes, threads and open files of the server's processes."""
    from adagq.flower.local.processes import Process, descendants

    pid = federation.processes.pid("superlink")
    usage: dict[str, Any] = {"round": round, **{name: dict.fromkeys(_usage_of(0), 0.0) for name in SERVERS}}
    for process in [Process(pid), *descendants(pid)]:
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            of = _usage_of(process.pid)
        except OSError:
            continue
        for name, mark in SERVERS.items():
            if mark in words:
                usage[name] = {key: usage[name][key] + of[key] for key in of}
                break
    return usage


def _usage_of(pid: int) -> dict[str, float]:
    if not pid:
        return {"megabytes": 0.0, "threads": 0.0, "files": 0.0}
    status: Mapping[str, str] = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines() if ":" in line
    )
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return {"megabytes": int(status["VmRSS"].split()[0]) / 1024, "threads": int(status["Threads"]), "files": files}


def _line(soaked: Soaked) -> str:
    fault, usage = soaked.faults[-1], soaked.usage[-1]
    shown = [f"{name} " + ", ".join(f"{count:.0f} {what}" for what, count in usage[name].items()) for name in SERVERS]
    return f"round {fault.round}: {fault.kind} node {fault.node}; {'; '.join(shown)}"
