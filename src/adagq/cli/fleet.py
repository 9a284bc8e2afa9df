"""`adagq fleet`: fleet files from what was measured."""

from pathlib import Path
from typing import Annotated

import typer

fleet = typer.Typer(name="fleet", help="Fleet files: devices and links of your clients.", no_args_is_help=True)


@fleet.command("from-csv")
def from_csv(
    csv: Annotated[
        Path, typer.Argument(help="Columns name, uplink_mbps, downlink_mbps; latency_seconds, epoch_seconds.")
    ],
    out: Annotated[Path, typer.Option(help="The fleet file to write.")] = Path("fleet.toml"),
    epoch_seconds: Annotated[
        float | None, typer.Option(min=0.001, help="One local epoch on a client, where the CSV does not say.")
    ] = None,
) -> None:
    """Write a fleet file from measured link speeds; several lines of one name count with their median."""
    from adagq.core.atomic import replacing
    from adagq.core.errors import ConfigError, OutputError
    from adagq.simulation.fleet import fleet_from_csv, fleet_toml

    if out.exists():
        raise OutputError(f"{out} is there already; nothing was written. Name another file with --out")
    try:
        text = csv.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{csv}: cannot be read ({reason})") from None
    made = fleet_from_csv(text, epoch_seconds, str(csv))
    with replacing(out) as file:
        file.write(fleet_toml(made, csv.name).encode())
    count = sum(group.count for group in made.client)
    clients = "1 client" if count == 1 else f"{count} clients"
    typer.echo(f"{out}: {clients}. Next: adagq plan --fleet {out} --params 11.2M, adagq compare --fleet {out}")
    if epoch_seconds is None and any(group.epoch_seconds is None for group in made.client):
        low, high = made.epoch_seconds if isinstance(made.epoch_seconds, tuple) else (made.epoch_seconds,) * 2
        typer.echo(
            f"no epoch_seconds: a local epoch counts as {low:g} to {high:g} s, the paper's; set yours in {out}",
            err=True,
        )
