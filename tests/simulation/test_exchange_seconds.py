"""The fixed cost of an exchange in the virtual clock, and what follows from it."""

from itertools import islice

import pytest

from adagq.core.errors import ConfigError
from adagq.experiments.config import load_config
from adagq.experiments.plan import plan
from adagq.experiments.plan_input import PlanInput, parse_exchange_seconds
from adagq.experiments.runner import schedule_of
from adagq.methods.table import method_of
from adagq.rounds import Schedule, synchronous
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.processes import open_pool
from toy import ToySpec


def rows(name: str, exchanges: int, exchange_seconds: float) -> list[dict]:
    spec, method = ToySpec(), method_of(name)
    population = spec.build()
    config = fleets.paper(clients=spec.clients, exchange_seconds=exchange_seconds)
    with open_pool(1) as pool:
        pool.prepare(spec, population.layout)
        backend = Simulated(pool, population, fleets.build(config, 3), method, 3)
        closed = islice(synchronous(method, backend, Schedule(seed=3, exchanges=exchanges)), 4)
        return [{**one.row, "ledger": one.ledger} for one in closed]


@pytest.mark.parametrize(
    ("name", "exchanges", "trips"),
    [("qsgd", 1, [1, 1, 1, 1]), ("qsgd", 2, [1, 1, 1, 1]), ("adagq", 2, [1, 2, 2, 2]), ("adagq", 1, [1, 1, 1, 1])],
)
def test_a_round_is_longer_by_its_exchanges_and_nothing_else_changes(name: str, exchanges: int, trips: list) -> None:
    free, dear = rows(name, exchanges, 0.0), rows(name, exchanges, 2.5)
    for before, after, count in zip(free, dear, trips, strict=True):
        for key in ("round_seconds", "server_seconds"):
            assert after[key] - before[key] == pytest.approx(2.5 * count)
        assert after["upload_bytes"] == before["upload_bytes"] or name == "adagq"
        for line in after["ledger"]:
            parts = sum(line[f"{part}_seconds"] for part in ("download", "compute", "upload", "waiting"))
            assert parts + after["server_seconds"] == pytest.approx(after["round_seconds"])


def test_the_reference_of_the_tax_has_no_fixed_cost() -> None:
    assert rows("ideal", 2, 2.5) == rows("ideal", 2, 0.0)


@pytest.mark.parametrize(("seconds", "exchanges"), [(0.0, 2), (0.3, 2), (1.5, 1)])
def test_auto_makes_one_exchange_where_each_is_dear(seconds: float, exchanges: int) -> None:
    config = load_config(None, ["training.exchanges=auto", f"fleet.exchange_seconds={seconds}"])
    assert schedule_of(config.training, 0, config.fleet.exchange_seconds).exchanges == exchanges


@pytest.mark.parametrize("value", ["3", "0", "often"])
def test_other_numbers_of_exchanges_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"training\.exchanges"):
        load_config(None, [f"training.exchanges={value}"])


def test_a_plan_counts_it_once_a_round() -> None:
    free, dear = (
        {row.method: row for row in plan(PlanInput(params=1e6, exchange_seconds=seconds)).methods}
        for seconds in (0.0, 8.0)
    )
    for method, row in dear.items():
        assert row.round_seconds == pytest.approx(free[method].round_seconds + 8.0)
    with pytest.raises(ConfigError, match="exchange_seconds"):
        PlanInput(params=1e6, exchange_seconds=-1.0)


@pytest.mark.parametrize("text", ["-1", "soon", "inf"])
def test_what_an_exchange_costs_is_a_number_or_a_way_of_starting_nodes(text: str) -> None:
    assert 0 < parse_exchange_seconds("node") < parse_exchange_seconds("supernode")
    with pytest.raises(ConfigError, match="exchange_seconds"):
        parse_exchange_seconds(text)
