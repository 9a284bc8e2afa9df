"""A fleet from measured links: a CSV with a line per measurement becomes the `[[client]]` tables of a fleet file.

    name,uplink_mbps,downlink_mbps,latency_seconds,epoch_seconds
    lyon,4.8,68,0.012,20
    lyon,5.1,70,0.011,20
    turin,18.9,95,0.021,14

The first two columns of numbers are needed; the others, and `count`, may be absent or empty. Several lines with one
name are one client: the median of each column counts. `adagq bench link` writes such a file.
"""

import csv
import io
import math
from collections.abc import Mapping
from statistics import median
from typing import Any, Final

from adagq.core.errors import ConfigError
from adagq.core.registry import suggestion
from adagq.simulation.fleet.config import FleetConfig, fleet_config

NEEDED: Final = ("uplink_mbps", "downlink_mbps")
COLUMNS: Final = ("name", *NEEDED, "latency_seconds", "epoch_seconds", "count")
LEAST_MBPS, MOST_MBPS = 0.0001, 1e6  # outside of this a rate was written in another unit


def fleet_from_csv(text: str, epoch_seconds: float | None = None, source: str = "csv") -> FleetConfig:
    """Return the fleet of a CSV; `epoch_seconds` is for clients without a column of their own.

    >>> fleet = fleet_from_csv("name,uplink_mbps,downlink_mbps\\nlyon,4,70\\nlyon,5,70\\nturin,20,95\\n", 12.0)
    >>> [(client.name, client.uplink_mbps) for client in fleet.client]
    [('lyon', 4.5), ('turin', 20.0)]
    """
    reader = csv.reader(io.StringIO(text), skipinitialspace=True)
    lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    lines = [(number, cells) for number, cells in lines if any(cells) and not cells[0].startswith("#")]
    if not lines:
        raise ConfigError(f"{source}: is empty; its first line names the columns: {','.join(COLUMNS)}")
    header = [name.lower() for name in lines[0][1]]
    _check_header(header, source)
    groups: dict[str, list[dict[str, float]]] = {}
    for number, cells in lines[1:]:
        name, numbers = _measurement(header, cells, f"{source}: line {number}")
        groups.setdefault(name or f"client {len(groups) + 1}", []).append(numbers)
    if not groups:
        raise ConfigError(f"{source}: has no measurement below its header")
    tables = [{"name": name, **_medians(lines)} for name, lines in groups.items()]
    whole: dict[str, Any] = {"client": tables}
    return fleet_config(whole if epoch_seconds is None else whole | {"epoch_seconds": epoch_seconds})


def fleet_toml(fleet: FleetConfig, source: str) -> str:
    """Return the fleet as a TOML file with a table for each client."""
    import tomli_w

    unsaid = {"count": 1}
    speed = fleet.epoch_seconds
    parts = [
        f"# Links as measured, from {source}: Mbit/s and seconds. epoch_seconds is one pass over a client's data.",
        f"epoch_seconds = {list(speed) if isinstance(speed, tuple) else speed}",
    ]
    for client in fleet.client:
        known = {key: getattr(client, key) for key in COLUMNS}
        table = {key: value for key, value in known.items() if value not in (None, unsaid.get(key))}
        parts.append(f"\n[[client]]\n{tomli_w.dumps(table).rstrip()}")
    return "\n".join(parts) + "\n"


def _check_header(header: list[str], source: str) -> None:
    for name in header:
        if name not in COLUMNS:
            hint = suggestion(name, COLUMNS)
            raise ConfigError(f"{source}: unknown column {name!r}: {hint} Known: {', '.join(COLUMNS)}")
    missing = [name for name in NEEDED if name not in header]
    if missing or len(set(header)) < len(header):
        raise ConfigError(f"{source}: needs each of the columns {' and '.join(NEEDED)} once, has {', '.join(header)}")


def _measurement(header: list[str], cells: list[str], place: str) -> tuple[str, dict[str, float]]:
    """Return a line's name and its numbers; empty cells are left out."""
    if len(cells) != len(header):
        raise ConfigError(f"{place} has {len(cells)} cells, the header {len(header)}")
    texts = {key: cell for key, cell in zip(header, cells, strict=True) if cell}
    name, numbers = texts.pop("name", ""), {}
    for key, cell in texts.items():
        try:
            numbers[key] = float(cell)
        except ValueError:
            numbers[key] = math.nan
        if not 0 <= numbers[key] < math.inf:
            raise ConfigError(f"{place}: {key} is {cell!r}, must be a number >= 0")
    for key in NEEDED:
        if key not in numbers:
            raise ConfigError(f"{place}: {key} is empty")
        if not LEAST_MBPS <= numbers[key] <= MOST_MBPS:
            raise ConfigError(f"{place}: {key} is {numbers[key]:g} Mbit/s: a typing error? 20 is a usual uplink")
    return name, numbers


def _medians(lines: list[dict[str, float]]) -> Mapping[str, float]:
    keys = [key for key in COLUMNS if any(key in line for line in lines)]
    medians = {key: float(median(line[key] for line in lines if key in line)) for key in keys}
    return {key: int(value) if key == "count" else round(value, 6) for key, value in medians.items()}
