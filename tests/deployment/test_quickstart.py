"""The example app as its README runs it, on Ray and on real nodes: it learns, and says what it took.

Each test is one federation that several runs share: starting one costs more than running on it.
"""

from pathlib import Path

from adagq.deployment.federation import Federation
from deployment.conftest import QUICKSTART, finish, rows_of

METHODS = ("adagq", "adagq-fit")


def test_it_learns_on_ray(tmp_path: Path) -> None:
    with Federation(4, tmp_path / "flower", simulation=True) as federation:
        for method in METHODS:
            rows = finish(
                *(federation, QUICKSTART, tmp_path / method, 600),
                method=method,
                num_server_rounds=4,
                learning_rate=0.3,
                min_nodes=4,  # on a busy machine Ray's nodes come one by one
            )
            assert [row["clients"] for row in rows] == [4] * 4
            assert rows[-1]["accuracy"] > 0.4  # ten classes
            assert rows_of(tmp_path / method, "incidents.jsonl") == []


def test_it_learns_on_two_real_nodes(tmp_path: Path) -> None:
    with Federation(2, tmp_path / "flower", node_config={"adagq-folder": str(tmp_path / "nodes")}) as federation:
        for method in METHODS:
            out = tmp_path / method
            rows = finish(
                *(federation, QUICKSTART, out, 600),
                method=method,
                num_server_rounds=3,
                learning_rate=0.3,
                exchanges=1,
            )
            assert [row["clients"] for row in rows] == [2] * 3
            assert rows[-1]["accuracy"] > 0.4
            assert {row["clock"] for row in rows} == {"measured"}
            exchanges = rows_of(out, "exchanges.jsonl")
            assert len(exchanges) == 6
            assert all(line["train_seconds"] > 0 and line["encode_seconds"] > 0 for line in exchanges)
            assert len(rows_of(out, "ledger.jsonl")) == 6
    models = list((tmp_path / "nodes").glob("partition-*/*/model.npz"))
    assert len(models) == 4  # two nodes, two runs: on their disks
