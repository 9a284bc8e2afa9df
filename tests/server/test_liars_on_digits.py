"""One liar of twenty on the default task: under the vote the mean levels stay within a bit of the honest run's."""

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from adagq.experiments.config import load_config
from adagq.experiments.runner import schedule_of
from adagq.methods.table import method_of
from adagq.rounds.synchronous import synchronous
from adagq.simulation import fleet as fleets
from adagq.simulation.processes import open_pool
from hostile import LIAR, Lie, Tampered
from server.test_validation import LIES

pytestmark = pytest.mark.slow
ROUNDS = 12
TOLD = ("times x2.9", "times x100", "no time at all", "losses nan", "payload cut short")


@pytest.mark.parametrize("seed", [0, 1])
def test_one_liar_of_twenty_moves_the_mean_levels_by_less_than_a_bit(seed: int) -> None:
    config = load_config(None, [f"seed={seed}"])
    task, method = replace(config.task, seed=seed), method_of("adagq-vote")
    population = task.build()
    with open_pool(1) as pool:
        pool.prepare(task, population.layout)

        def run(lie: Lie) -> tuple[np.ndarray, np.ndarray]:
            fleet = fleets.build(config.fleet, seed)
            backend = Tampered(pool, population, fleet, method, seed, config.payload_scale)
            backend.lie, backend.liar = lie, LIAR
            means, bits = [], []
            for one in islice(synchronous(method, backend, schedule_of(config.training, seed)), ROUNDS):
                means.append(math.log2(one.state.control.mean_levels))
                bits.append([math.log2(line["levels"] + 1) for line in one.ledger if line["client"] != LIAR])
            return np.array(means), np.array(bits)

        honest_means, honest_bits = run(Lie())
        for name in TOLD:
            means, bits = run(LIES[name])
            assert np.abs(means - honest_means).max() < 1.0, name
            # Whole bits: where the mean is a level or two, a third of a bit may bring the fastest client two.
            assert (np.abs(bits - honest_bits) > 1).mean() < 0.01, name
