"""Secure aggregation, as far as docs/secure_aggregation.md designs it: the sum is exact, and what it costs in bits."""

import math
from functools import cache

import numpy as np

from adagq.codecs import QSGD, decode
from adagq.core.seeds import derive, generator
from adagq.learners import LearningTask

CLIENTS = 20


@cache
def updates() -> np.ndarray:
    """Real updates: one local epoch of every client of the default task."""
    task = LearningTask(model="mlp", clients=CLIENTS)
    population = task.build()
    vector, buffers = population.initial(0)
    found = []
    for client in range(CLIENTS):
        learner = population.learner(client)
        learner.load(vector, buffers)
        learner.train(1, 0.1, derive(0, "train", 1, client))
        found.append(vector - learner.dump()[0])
    return np.array(found)


def dither(client: int, size: int) -> np.ndarray:
    return generator(1, "dither", client).random(size)


def masked(client: int, symbols: np.ndarray, modulus: int) -> np.ndarray:
    """Add a mask per pair of clients, which cancels in the sum: each pair shares a seed, one adds, one subtracts."""
    total = symbols.astype(np.int64)
    for other in range(CLIENTS):
        if other != client:
            mask = generator(7, "pair", min(client, other), max(client, other)).integers(0, modulus, symbols.size)
            total = total + mask if client < other else total - mask
    return total % modulus


def secure_mean(step: float) -> tuple[np.ndarray, int]:
    """Return the mean as the server gets it, and the modulus: one lattice for all, sums modulo it."""
    found = updates()
    largest = math.ceil(float(np.abs(found).max()) / step) + 1
    modulus = 2 ** math.ceil(math.log2(2 * CLIENTS * largest + 1))  # no sum wraps around
    symbols = [np.floor(u / step + dither(i, u.size)).astype(np.int64) for i, u in enumerate(found)]
    seen = sum(masked(i, s, modulus) for i, s in enumerate(symbols)) % modulus
    centred = np.where(seen >= modulus // 2, seen - modulus, seen)
    assert np.array_equal(centred, sum(symbols))  # the masks cancel: the sum is exact
    undithered = centred - sum(dither(i, found.shape[1]) for i in range(CLIENTS)) + CLIENTS / 2
    return undithered * step / CLIENTS, modulus


def relative_error(mean: np.ndarray) -> float:
    true = updates().mean(axis=0)
    return float(((mean - true) ** 2).sum() / (true**2).sum())


def test_the_masks_cancel_and_masked_symbols_cost_about_ten_times_the_coded_ones() -> None:
    """At the same error of the mean: log2(modulus) bits an entry, since masked symbols are uniform."""
    found = updates()
    deviation = float(found.std())
    mean, modulus = secure_mean(step=2 * deviation)
    error, bits = relative_error(mean), math.log2(modulus)
    coded = {}
    for levels in (1, 2, 3, 5, 8, 12, 20, 40, 80, 160, 320):
        payloads = [QSGD(levels, "vector", "max", "dither", "entropy").encode(u, seed=i) for i, u in enumerate(found)]
        mean = np.mean([decode(payload) for payload in payloads], axis=0)
        coded[relative_error(mean)] = 8 * sum(map(len, payloads)) / found.size
    plain = min((bits_of for err, bits_of in coded.items() if err <= error), default=math.inf)
    print(f"error of the mean {error:.3f}: secure {bits:.0f} bits an entry, coded {plain:.2f}")
    assert error < 0.5
    assert 5 <= bits / plain <= 15
