"""A SuperLink and its SuperNodes on this machine, with the flags that an unattended run needs.

Telemetry, update checks and the installation of an app's dependencies are off: nothing leaves the machine. All of
Flower's files are in one folder. Ports are free ones on the loopback interface.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from adagq.core.errors import AdagqError
from adagq.flower.local.certificates import Certificates
from adagq.flower.local.processes import Processes

HOST: Final = "127.0.0.1"
CONNECTION: Final = "here"  # the SuperLink's name in Flower's own configuration
START_SECONDS: Final = 120.0
READY: Final = "Uvicorn running"  # in the SuperLink's log


class Federation:
    """Runs while its block does. With `simulation` Flower plays the nodes itself, on Ray.

    Nodes are started as `adagq node` does it; with `plain` as `flower-supernode`.
    """

    def __init__(
        self,
        nodes: int,
        folder: Path,
        *,
        tls: bool = False,
        simulation: bool = False,
        node_config: Mapping[str, Any] | None = None,
        host: str = HOST,
        plain: bool = False,
    ) -> None:
        self.nodes = nodes
        self.folder = folder
        self.simulation = simulation
        self.plain = plain
        self._node_config = dict(node_config or {})
        self._certificates = Certificates(folder / "tls") if tls else None
        self.address = f"{host}:{free_port()}"
        self.environment = _environment(folder, nodes)
        self.processes = Processes(folder, self.environment)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._certificates is not None:
            self._certificates.create(self.address.rpartition(":")[0])
        self._configure()
        self.processes.__enter__()
        try:
            self.start_superlink()
            for number in range(0 if self.simulation else self.nodes):
                if self._certificates is not None:
                    self.register(number)
                self.start_node(number)
        except BaseException:
            self.processes.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.__exit__()

    def start_superlink(self) -> None:
        """Start the SuperLink and wait until it takes connections."""
        host, _, port = self.address.rpartition(":")
        command = ["flower-superlink", "--host", host, "--port", port, "--disable-runtime-dependency-installation"]
        command += ["--insecure"] if self._certificates is None else self._certificates.superlink_flags()
        command += ["--simulation"] if self.simulation else []
        log = self.processes.log("superlink")
        before = log.stat().st_size if log.exists() else 0  # what an earlier run of the same folder wrote
        superlink = self.processes.start("superlink", command, self.wrap("superlink"))
        until = time.monotonic() + START_SECONDS
        while READY not in log.read_bytes()[before:].decode("utf-8", "replace"):
            if superlink.poll() is not None or time.monotonic() > until:
                raise AdagqError(f"the SuperLink did not start; its log ends: {self.tail('superlink')}")
            time.sleep(0.1)

    def start_node(self, number: int, **config: Any) -> None:
        """Start the SuperNode that holds partition `number`; `config` is added to its node config."""
        settings = {"partition-id": number, "num-partitions": self.nodes, **self._node_config, **config}
        settings.setdefault("adagq-folder", str(self.folder / "nodes"))
        program = ["flower-supernode"] if self.plain else ["python", "-m", "adagq.cli", "node"]
        command = [*program, "--superlink", self.address, "--host", HOST, "--port", str(free_port())]
        command += ["--insecure"] if self._certificates is None else self._certificates.supernode_flags(number)
        command += ["--node-config", config_text(settings)]
        self.processes.start(f"node-{number}", command, self.wrap(f"node-{number}"))

    def register(self, number: int) -> None:
        """Let the SuperLink know the key of node `number`."""
        assert self._certificates is not None, "only nodes with keys are registered"
        public = self._certificates.node_key(number).with_suffix(".pub")
        done = self._flwr("supernode", "register", str(public), CONNECTION, "--name", f"node-{number}")
        if done.returncode:
            raise AdagqError(f"node {number} could not be registered: {(done.stdout + done.stderr).strip()[-500:]}")

    def run(self, app_dir: Path, config: Mapping[str, Any] | None = None) -> "subprocess.Popen[bytes]":
        """Start the app; the process returned streams the server's log to `run.log` and ends with the run."""
        command = ["flwr", "run", str(app_dir), CONNECTION, "--stream"]
        if self.simulation:
            command += ["--federation-config", f"num-supernodes={self.nodes} client-resources-num-cpus=1"]
        if config:
            command += ["--run-config", config_text(config)]
        return self.processes.start("run", command, self.wrap("superlink"))

    def wrap(self, name: str) -> list[str]:
        """Return what comes before the command of a process; here nothing, elsewhere a network namespace."""
        return []

    def tail(self, name: str, lines: int = 5) -> str:
        """Return the last lines of a log."""
        text = self.processes.log(name).read_text("utf-8", "replace") if self.processes.log(name).exists() else ""
        return " | ".join(line.strip() for line in text.splitlines() if line.strip()).strip()[-lines * 120 :]

    def _flwr(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [str(Path(sys.executable).parent / "flwr"), *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)

    def _configure(self) -> None:
        """Write Flower's own configuration: where the SuperLink is and whether to trust it."""
        home = Path(self.environment["FLWR_HOME"])
        home.mkdir(parents=True, exist_ok=True)
        trust = (
            "insecure = true" if self._certificates is None else f'root-certificates = "{self._certificates.authority}"'
        )
        text = (
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\naddress = "{self.address}"\n{trust}\n'
        )
        (home / "config.toml").write_text(text, "utf-8")


def config_text(config: Mapping[str, Any]) -> str:
    """Return settings as Flower's command line takes them.

    >>> config_text({"partition-id": 0, "name": "a b", "tls": True})
    'partition-id=0 name="a b" tls=true'
    """
    return " ".join(f"{key}={_toml(value)}" for key, value in config.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _environment(folder: Path, nodes: int) -> dict[str, str]:
    threads = str(max(1, len(os.sched_getaffinity(0)) // max(nodes, 1)))
    return {
        "OMP_NUM_THREADS": threads,
        **os.environ,
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
