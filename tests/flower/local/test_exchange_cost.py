"""What an exchange costs, measured: every way of starting nodes finishes, and ours are the quicker ones."""

import pytest

from adagq.benchmarks.flower import measure


@pytest.mark.slow
def test_an_exchange_costs_less_than_a_round_of_flowers_own() -> None:
    lines = {line["way"]: line for line in measure(nodes=2, rounds=4, sizes={"1 kB": 256})}
    assert list(lines) == ["adagq node", "flower-supernode", "Flower's FedAvg"]
    assert lines["adagq node"]["upload_bytes"] >= 1024
    assert lines["adagq node"]["fixed_seconds"] < lines["flower-supernode"]["fixed_seconds"]
    assert lines["adagq node"]["round_seconds"] < 0.7 * lines["Flower's FedAvg"]["round_seconds"]
