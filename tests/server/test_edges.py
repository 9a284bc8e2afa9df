"""Edge servers: the mean comes through a second encoding, with little noise, in a little more time."""

import json

import numpy as np
import pytest

from adagq.codecs import Float32
from adagq.core.errors import ConfigError
from adagq.core.messages import Update
from adagq.core.vectors import Layout
from adagq.experiments.config import load_config
from adagq.experiments.runner import run
from adagq.server.edges import EdgeSum

SMALL = (
    "task.model=mlp", "task.width=8", "task.clients=6", "task.samples_per_client=40", "task.test_samples=50",
    "fleet={}", "methods=['fedavg','ideal']", "training.target=1.0", "training.max_rounds=2", "payload_scale=1.0",
)  # fmt: skip


def test_the_mean_of_the_edges_is_the_weighted_mean_but_for_rounding():
    vectors = np.random.default_rng(0).standard_normal((5, 3000)).astype(np.float32)
    examples = [10, 20, 30, 40, 50]
    edges = EdgeSum(Layout.of_sizes([3000]), 2, 4095, seed=1)
    for client, vector in enumerate(vectors):
        edges.add_clipped(Update(client, 1, examples[client], Float32().encode(vector), b"", 0, 1.0, 0.0))
    mean = edges.mean()
    exact = np.average(vectors, axis=0, weights=examples)
    error = float(np.square(mean - exact).sum() / np.square(exact).sum())
    assert 0 < error < 0.01
    assert set(edges.sent) == {0, 1}
    assert all(0 < nbytes < 12_000 for nbytes in edges.sent.values())


def test_edges_cost_seconds_and_change_nothing_of_the_reference(tmp_path):
    def rows(name, *settings):
        list(run(load_config(None, [*SMALL, *settings]), tmp_path / name, 1))
        return list(map(json.loads, (tmp_path / name / "rows.jsonl").read_text().splitlines()))

    plain, edged = rows("plain"), rows("edged", "fleet.edges=2", "fleet.edge_mbps=1.0")
    assert edged[0]["server_seconds"] > plain[0]["server_seconds"]
    assert edged[0]["accuracy"] == pytest.approx(plain[0]["accuracy"], abs=0.1)
    assert [row for row in edged if row["method"] == "ideal"] == [row for row in plain if row["method"] == "ideal"]
    with pytest.raises(ConfigError, match=r"fleet.edges = 2: edge servers can only make a plain mean"):
        rows("median", "fleet.edges=2", "training.aggregate=median")
