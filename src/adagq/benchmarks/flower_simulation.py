"""Rounds of Flower's own simulation, for `adagq bench simulator --ray`: its FedAvg on its Ray backend, our task.

A process of its own runs `flwr.simulation.run_simulation`. A round begins when it is asked for, so that it can take
turns with the bare loops, and ends when FedAvg has its new model. Clients load the model that was sent, take the bare
loop's steps and send it back whole. An actor has one core and keeps model and samples, as our workers do.
"""

import logging
import multiprocessing
import os
import time
from collections.abc import Iterable
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from adagq.benchmarks.simulator import TASK, bare_epoch, bare_task
from adagq.core.errors import AdagqError

LONGEST_SECONDS = 600.0  # from the start of Ray to the end of a round
bare = cache(bare_task)  # one for each actor


class FlowerRounds:
    """A simulation of `rounds` rounds that waits for `round` before each."""

    def __init__(self, workers: int, rounds: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_simulate, args=(theirs, workers, rounds))
        self._process.start()
        theirs.close()

    def round(self) -> float:
        """Return the seconds of the next round."""
        try:
            self._pipe.send(True)
            if self._pipe.poll(LONGEST_SECONDS):
                return float(self._pipe.recv())
        except (EOFError, OSError):
            raise AdagqError("Flower's simulation ended before its last round; what it printed says why") from None
        raise AdagqError(f"no round of Flower's simulation within {LONGEST_SECONDS:.0f} s")

    def __enter__(self) -> "FlowerRounds":
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(60)
        if self._process.is_alive():
            self._process.terminate()


class Timed(FedAvg):
    """FedAvg that begins a round when the pipe says so, and tells it the seconds."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__(fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=TASK.clients)
        self._pipe, self._begun = pipe, 0.0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self._pipe.recv()
        self._begun = time.perf_counter()
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        if failed := [reply.error.reason for reply in replies if reply.has_error()]:
            raise RuntimeError(f"{len(failed)} clients failed: {failed[0]}")
        mean = super().aggregate_train(server_round, replies)
        self._pipe.send(time.perf_counter() - self._begun)
        return mean


client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Take a client's steps from the model that was sent."""
    model, inputs, targets, shares = bare()
    model.load_state_dict(_arrays(message.content).to_torch_state_dict())
    examples = shares[int(context.node_config["partition-id"])]
    bare_epoch(model, inputs[:examples], targets[:examples])
    reply: dict[str, Any] = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": examples}),
    }
    return Message(RecordDict(reply), reply_to=message)


def _arrays(content: RecordDict) -> ArrayRecord:
    return next(iter(content.array_records.values()))


def _simulate(pipe: Connection, workers: int, rounds: int) -> None:
    os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_worker_niceness="0")  # Ray's 15 would be no fair race
    logging.getLogger("flwr").setLevel(logging.ERROR)
    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        Timed(pipe).start(grid, ArrayRecord(bare_task()[0].state_dict()), num_rounds=rounds)

    backend: dict[str, Any] = {
        "init_args": {"address": "local", "num_cpus": workers, "include_dashboard": False, "log_to_driver": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    run_simulation(server_app, client_app, TASK.clients, backend_config=backend)
