"""`adagq bench`: codecs, server, simulator, crowds, links, one update and attacks, measured on this machine."""

import socket
from pathlib import Path
from typing import Annotated

import typer

from adagq.cli.common import ConfigFile, Settings, Workers, names_in, settings_file, worker_count

bench = typer.Typer(name="bench", help="Measure this machine; prints ratios.", no_args_is_help=True)

Updates = Annotated[list[int] | None, typer.Option(min=1, help="Updates in a round; repeatable. 1,000 and 10,000.")]
Params = Annotated[int, typer.Option(min=1, help="Parameters of the model.")]


def _need_torch() -> None:
    """Say what to install before anything is imported, printed or measured."""
    from adagq.core.extras import need

    need("torch", "torch")


@bench.command("codecs")
def bench_codecs() -> None:
    """Encode and decode every codec; times as ratios to memcpy."""
    from adagq.benchmarks.codecs import run

    run()


@bench.command("server")
def bench_server(updates: Updates = None, params: Params = 1_000_000) -> None:
    """Add up a round of many updates: times as ratios to memcpy, and the memory it takes."""
    from adagq.benchmarks.server import run

    run(updates or (1_000, 10_000), params)


@bench.command("flower")
def bench_flower(
    nodes: Annotated[int, typer.Option(min=2, help="SuperNodes on this machine.")] = 2,
    rounds: Annotated[int, typer.Option(min=3, help="Rounds of each run; the first is not counted.")] = 4,
    save: Annotated[Path | None, typer.Option(help="Also write the numbers here, as JSON.")] = None,
) -> None:
    """Measure what an exchange costs on Flower beside its bytes and its computing, at 1 kB and at 44 MB."""
    from adagq.benchmarks.flower import run
    from adagq.core.extras import need

    need("flwr", "flower")
    run(nodes, rounds, save)


@bench.command("link")
def bench_link(
    host: Annotated[str | None, typer.Argument(help="Where `adagq bench link --listen` runs.")] = None,
    listen: Annotated[bool, typer.Option("--listen", help="Be the other end: serve nodes until Ctrl-C.")] = False,
    name: Annotated[str | None, typer.Option(help="This node's; default: its host name.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Add every measurement to this file, for `fleet from-csv`.")] = None,
    seconds: Annotated[float, typer.Option(min=0.5, max=60, help="Of each direction's test.")] = 5.0,
    port: Annotated[int, typer.Option(min=1, max=65535, help="TCP port of the listening side.")] = 9300,
    nodes: Annotated[int | None, typer.Option(min=1, help="With --listen: leave after so many nodes.")] = None,
) -> None:
    """Measure a node's up- and downlink: --listen at the server, then HOST on every node."""
    from adagq.benchmarks.link import LinkSpeed
    from adagq.benchmarks.link import listen as serve
    from adagq.benchmarks.link import measure as measured
    from adagq.core.errors import ConfigError

    if listen == (host is not None):
        raise ConfigError("adagq bench link: either the HOST to measure, or --listen")

    def note(speed: LinkSpeed) -> None:
        from adagq.benchmarks.link import append_csv

        typer.echo(speed)
        if csv is not None:
            append_csv(csv, speed)

    def ready(port: int) -> None:
        typer.echo(f"listening on port {port}; on each node: adagq bench link THIS_HOST --port {port}", err=True)

    try:
        if host is None:
            serve(port, note, nodes, ready=ready)
        else:
            note(measured(host, port, name or socket.gethostname(), seconds))
    except KeyboardInterrupt:
        if csv is not None and csv.exists():
            typer.echo(f"next: adagq fleet from-csv {csv}", err=True)


@bench.command("simulator")
def bench_simulator(
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds to time.")] = 3,
    on_ray: Annotated[bool, typer.Option("--ray", help="Also on Ray, and Flower's own simulation on Ray.")] = False,
) -> None:
    """Compare the simulator with bare PyTorch loops that take the same SGD steps."""
    _need_torch()
    from adagq.benchmarks.simulator import run
    from adagq.core.extras import need

    if on_ray:
        need("ray", "flower")
        need("flwr", "flower")
    run(workers, rounds, on_ray=on_ray)


@bench.command("scale")
def bench_scale(
    clients: Annotated[int, typer.Option(min=2, help="Clients, most of whom a run never sees.")] = 10_000,
    cohort: Annotated[int, typer.Option(min=1, help="Clients a round.")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds.")] = 20,
    method: Annotated[str, typer.Option(help="A row of `adagq methods`.")] = "adagq-fit",
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Keep the run directory here.")] = None,
) -> None:
    """Simulate a crowd: seconds a round beside bare training, peak memory, size of the run directory."""
    _need_torch()
    from adagq.benchmarks.scale import run

    run(clients, cohort, rounds, method, worker_count(workers), out)


@bench.command("update")
def bench_update(
    config: ConfigFile = None,
    settings: Settings = None,
    save: Annotated[Path | None, typer.Option(help="Also write the numbers here, as JSON.")] = None,
) -> None:
    """Train one client for an epoch and measure what each method makes of its update."""
    _need_torch()
    from adagq.benchmarks.update import run
    from adagq.experiments.config import load_config

    run(load_config(settings_file(config), settings or []), save)


@bench.command("attack")
def bench_attack(
    method: Annotated[str, typer.Option(help="A row of `adagq methods`.")] = "adagq-fit",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of every run.")] = 30,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of every run.")] = 1,
    attacks: Annotated[str, typer.Option(help="Those of interest, with commas: scale, flip, weight, buffers.")] = "",
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
    settings: Settings = None,
) -> None:
    """Train with 1 and with 6 poisoners of 20 under every aggregate; prints the accuracies as a table."""
    import logging

    _need_torch()
    from adagq.benchmarks.attack import run

    logging.getLogger("adagq").setLevel(logging.ERROR)  # incidents are what this is about
    run(method, rounds, workers=workers, settings=settings or [], seeds=seeds, attacks=names_in(attacks))


@bench.command("soak")
def bench_soak(
    nodes: Annotated[int, typer.Option(min=2, help="SuperNodes on this machine.")] = 8,
    rounds: Annotated[int, typer.Option(min=2, help="Rounds of the run.")] = 100,
    every: Annotated[int, typer.Option(min=1, help="Rounds between two faults.")] = 5,
    method: Annotated[str, typer.Option(help="A row of `adagq methods`.")] = "adagq-fit",
    target: Annotated[float, typer.Option(min=0.0, max=1.0, help="Accuracy that it must end at.")] = 0.9,
    seed: Annotated[int, typer.Option(min=0, help="Draws the faults.")] = 0,
    save: Annotated[Path | None, typer.Option(help="Also write faults, rows and memory here, as JSON.")] = None,
) -> None:
    """Run real nodes that are killed, stopped, slowed and made to send garbage; exit code 1 if it did not hold."""
    from adagq.benchmarks.soak import run
    from adagq.core.extras import need

    need("flwr", "flower")
    if run(save, nodes=nodes, rounds=rounds, every=every, method=method, target=target, seed=seed):
        raise typer.Exit(1)
