"""Differential privacy: a client's part is bounded, the noise is as large as stated, a kill changes nothing."""

import json
import math
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adagq.client.privacy import check_noise, privately, said
from adagq.codecs import QSGD, Float32, TopK
from adagq.codecs.sending import send
from adagq.control import Fit
from adagq.core.errors import ConfigError
from adagq.core.messages import Sync, Task, Update
from adagq.core.seeds import generator
from adagq.core.vectors import Layout
from adagq.experiments.config import Training, load_config
from adagq.experiments.runner import run, simulate
from adagq.methods.table import method_of
from adagq.rounds import LOOPS, Schedule
from adagq.server.intake import Bounds, Intake, Usual
from adagq.server.privacy import Privacy, Spent, epsilon_of, noise_for, privacy_of
from adagq.simulation import fleet as fleets
from adagq.simulation.backend import Simulated
from adagq.simulation.processes import open_pool
from toy import LAYOUT, ToySpec

PLAIN = Layout.of({"weight": np.zeros((40, 50), np.float32)})
SPEC = ToySpec(clients=6, layout=PLAIN)
CENTRAL = Privacy(clip=2.0, noise_multiplier=1.5)
LOCAL = replace(CENTRAL, noise="clients")


def exact_delta(epsilon: float, mu: float) -> float:
    """Return delta of a Gaussian mechanism whose sensitivity is mu times its noise (Balle and Wang 2018, theorem 8)."""

    def normal(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    return normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(("noise", "rounds"), [(1.0, 1), (3.7306, 1), (5.0, 30), (20.0, 200), (0.7, 3)])
def test_epsilon_is_an_upper_bound_and_near_the_exact_one(noise: float, rounds: int) -> None:
    """k Gaussians of multiplier z are one of z / sqrt(k): the exact trade is known."""
    epsilon, mu = epsilon_of(noise, rounds, 1e-5), math.sqrt(rounds) / noise
    assert exact_delta(epsilon, mu) <= 1e-5
    assert exact_delta(epsilon / 1.2, mu) > 1e-5


def test_published_value() -> None:
    """Balle and Wang: epsilon = 1 at delta = 1e-5 needs sigma = 3.7306."""
    assert exact_delta(1.0, 1 / 3.730632) == pytest.approx(1e-5, rel=1e-3)
    assert 1.0 <= epsilon_of(3.730632, 1, 1e-5) <= 1.15


@settings(deadline=None, max_examples=20)
@given(st.floats(0.2, 50.0), st.integers(1, 500))
def test_the_noise_of_an_epsilon_spends_it_and_no_more(epsilon: float, rounds: int) -> None:
    spent = epsilon_of(noise_for(epsilon, rounds, 1e-5), rounds, 1e-5)
    assert 0.98 * epsilon <= spent <= epsilon


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"clip": 1.0}, "one of epsilon and noise_multiplier"),
        ({"clip": 1.0, "epsilon": 1.0, "noise_multiplier": 1.0}, "not both"),
        ({"epsilon": 8.0}, r"training.privacy.epsilon = 8.0: needs training.privacy.clip"),
        ({"clip": -1.0, "epsilon": 8.0}, r"training.privacy.clip = -1.0: must be a number >= 0"),
        ({"clip": 1.0, "epsilon": 8.0, "delta": 0.0}, "delta = 0.0"),
        ({"clip": 1.0, "epsilon": 8.0, "noise": "nobody"}, "one of 'server', 'clients'"),
        ({"clip": 1.0, "epsilom": 8.0}, "did you mean"),
        ({"clip": "one"}, "must be a number"),
        (3, "must be a table"),
    ],
)
def test_settings_without_sense(given: object, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        privacy_of(given)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (["training.privacy={clip=1.0,epsilon=8.0}", "training.aggregate=median"], "noise at the server"),
        (["training.privacy={clip=1.0,epsilon=8.0,delta=0.06}"], r"below 1 / clients = 0.05"),
        (["training.privacy={clip=1.0,epsilon=1e-9}", "training.max_rounds=200"], "out of reach"),
    ],
)
def test_settings_that_do_not_go_together(settings: list[str], error: str) -> None:
    def calibrated() -> Privacy:
        training = load_config(None, settings).training
        return training.privacy.calibrated(training.max_rounds)

    with pytest.raises(ConfigError, match=error):
        calibrated()


def test_clients_noise_goes_with_any_aggregate() -> None:
    config = load_config(None, ['training.privacy={clip=1.0,epsilon=8.0,noise="clients"}', "training.aggregate=median"])
    assert config.training.privacy.local


def test_a_model_with_buffers_is_refused() -> None:
    """BatchNorm's statistics would leave the clients as they are."""
    training = Training(privacy=CENTRAL, max_rounds=2)
    with pytest.raises(ConfigError, match=r"the model has buffers \(bn.running_mean"):
        list(simulate(ToySpec().build(), "qsgd", training=training))
    assert LAYOUT.buffer_elements


def test_clients_that_hold_updates_back_need_noise_of_their_own() -> None:
    """Whether an update comes would tell of the data, and the mean is over those that came."""
    with pytest.raises(ConfigError, match="hold updates back"):
        list(simulate(SPEC.build(), "cmfl", training=Training(privacy=CENTRAL, max_rounds=2)))
    assert len(list(simulate(SPEC.build(), "cmfl", training=Training(privacy=LOCAL, max_rounds=2, target=1.0)))) == 2


def update(client: int, vector: np.ndarray, codec=Float32(), examples: int = 100) -> Update:  # noqa: B008
    payload = codec.encode(vector.astype(np.float32), client, PLAIN)
    return Update(client, 1, examples, payload, b"", 0, 1.0, 0.0)


def mean_of(privacy: Privacy, *updates: Update, seed: int = 0) -> np.ndarray:
    intake = Intake(
        PLAIN, range(10), Usual(), Bounds(5.0, 5.0), lambda *_: None, lambda *_: None, privacy=privacy, noise_seed=seed
    )
    for one in updates:
        intake.put(one)
    closed = intake.close()
    assert closed is not None
    return closed[0]


@pytest.mark.parametrize("codec", [Float32(), QSGD(levels=1, packing="entropy"), TopK(0.01)], ids=str)
@pytest.mark.parametrize("size", [0.1, 1.0, 1e6])
def test_one_client_changes_the_sum_by_no_more_than_the_clip(codec, size: float) -> None:
    """The noise is the same with and without it, so it cancels: what is left is the client's part."""
    vectors = [generator(1, "update", client).standard_normal(PLAIN.elements) for client in range(4)]
    others = [update(client, vector, codec) for client, vector in enumerate(vectors[:3])]
    with_it = mean_of(CENTRAL, *others, update(3, size * vectors[3], codec, examples=10**6))
    without = mean_of(CENTRAL, *others, update(3, 0 * vectors[3], Float32()))
    assert 4 * np.linalg.norm(with_it - without) <= CENTRAL.clip * (1 + 1e-4)


def test_the_servers_noise_is_as_large_as_the_accountant_thinks() -> None:
    zeros = [update(client, np.zeros(PLAIN.elements)) for client in range(5)]
    mean = mean_of(CENTRAL, *zeros)
    assert 5 * mean.std() == pytest.approx(CENTRAL.noise_multiplier * CENTRAL.clip, rel=0.05)
    assert float(mean @ mean) == pytest.approx(CENTRAL.noise_energy(PLAIN.elements, 5), rel=0.1)
    assert not np.array_equal(mean, mean_of(CENTRAL, *zeros, seed=1))
    assert not mean_of(LOCAL, *zeros).any()  # the clients have added theirs


def task(privacy: Privacy) -> Task:
    deviation = privacy.deviation if privacy.local else 0.0
    return Task(0, 1, Float32(), 1, 0.1, 5, clip_norm=privacy.clip, noise_deviation=deviation)


def test_a_client_cuts_its_update_and_adds_its_noise() -> None:
    vector = generator(1, "one").standard_normal(PLAIN.elements).astype(np.float32)
    assert np.linalg.norm(privately(vector, task(CENTRAL), 1)) == pytest.approx(CENTRAL.clip, rel=1e-5)
    small = np.float32(1e-3) * vector
    assert np.array_equal(privately(small, task(CENTRAL), 1), small)
    assert privately(vector, task(Privacy()), 1) is vector
    noised = privately(np.zeros_like(vector), task(LOCAL), 1)
    assert noised.std() == pytest.approx(LOCAL.deviation, rel=0.05)
    assert not np.array_equal(noised, privately(np.zeros_like(vector), task(LOCAL), 2))


def test_what_a_client_says_beside_its_payload_tells_nothing_of_its_data() -> None:
    texts = []
    for client in range(2):
        vector = generator(1, "one", client).standard_normal(PLAIN.elements).astype(np.float32)
        encoded = send(Float32(), privately((1 + client) * vector, task(CENTRAL), 1), layout=PLAIN)
        texts.append(str(said(encoded, task(CENTRAL), (1.0,) * 16, train_loss=float(client))))
    assert texts[0] == texts[1]
    assert math.isnan(said(encoded, task(LOCAL), (), 3.0)["train_loss"])


def rows_of(method: str, privacy: Privacy, rounds: int, **schedule) -> list[dict]:
    row = method_of(method)
    with open_pool(1) as pool:
        pool.prepare(SPEC, SPEC.layout)
        backend = Simulated(pool, SPEC.build(), fleets.build(fleets.paper(clients=6), seed=5), row, seed=5)
        settings = Schedule(seed=5, learning_rate=0.2, privacy=privacy, **schedule)
        return [result.row for result in islice(LOOPS[row.loop](row, backend, settings, None), rounds)]


@pytest.mark.parametrize("method", ["fedavg", "adagq-fit", "adagq", "topk", "fedbuff", "han", "adaquantfl", "powersgd"])
@pytest.mark.parametrize("privacy", [CENTRAL, LOCAL], ids=["server", "clients"])
def test_any_row_takes_it(method: str, privacy: Privacy) -> None:
    rows = rows_of(method, privacy, 4)
    assert [row["delta"] for row in rows] == [1e-5] * 4
    epsilons = [row["epsilon"] for row in rows]
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] <= epsilon_of(1.5, 4 if privacy.central else 8, 1e-5)
    assert all(row["train_loss"] is None and row["norm"] > 0 for row in rows)


def test_a_client_pays_for_the_rounds_that_it_took_part_in() -> None:
    """Cohorts are no secret: no amplification, and no charge for rounds without it."""
    rows = rows_of("qsgd", CENTRAL, 6, participants=2)
    most = next(k for k in range(1, 7) if epsilon_of(1.5, k, 1e-5) == rows[-1]["epsilon"])
    assert 2 <= most < 6


def test_a_run_that_was_killed_may_have_spent_one_round_more() -> None:
    assert Spent({0: 2, 1: 1}).interrupted().rounds == {0: 3, 1: 2}
    assert Spent.from_json(json.loads(json.dumps(Spent({0: 2, 1: 1}).to_json()))) == Spent({0: 2, 1: 1})


def test_a_repeated_round_counts_twice_where_clients_add_the_noise() -> None:
    """Those who answered an attempt in vain have answered all the same."""
    row, spent = method_of("qsgd"), {}
    for privacy in (CENTRAL, LOCAL):
        with open_pool(1) as pool:
            pool.prepare(SPEC, SPEC.layout)
            fleet = fleets.build(fleets.paper(clients=6, drop_rate=0.5), seed=5)
            backend = Simulated(pool, SPEC.build(), fleet, row, seed=5)
            schedule = Schedule(seed=5, learning_rate=0.2, privacy=privacy, min_updates=4)
            results = list(islice(LOOPS[row.loop](row, backend, schedule, None), 4))
        assert sum(result.row["attempts"] for result in results) > 4
        spent[privacy.noise] = results[-1].state.spent.most
    assert spent["server"] <= 4 < spent["clients"]


def test_resume_continues_the_accountant(tmp_path: Path) -> None:
    config = load_config(
        None,
        [
            "methods=['qsgd']",
            "fleet={}",
            "task.clients=6",
            "training.max_rounds=5",
            "training.target=1.0",
            "training.privacy={clip=2.0,epsilon=20.0}",
        ],
    )
    steps = run(config, tmp_path / "whole", population=SPEC.build())
    list(steps)
    begun = run(config, tmp_path / "left", population=SPEC.build())
    list(islice(begun, 3))
    begun.close()
    list(run(config, tmp_path / "left", resume=True, population=SPEC.build()))
    whole, left = ((tmp_path / name / "rows.jsonl").read_bytes() for name in ("whole", "left"))
    assert whole == left
    last = json.loads(whole.splitlines()[-1])
    assert last["epsilon"] == pytest.approx(20.0, rel=0.01)


def test_the_controller_knows_the_noise() -> None:
    """Where privacy's noise is large, bits against the quantizer's are worth less: rounds end no later."""
    from control.test_fit import facts, receipt  # the same clients as in the controller's own tests

    controller = Fit()
    receipts = [receipt(client) for client in range(4)]
    quiet = controller.observe(controller.init(4), facts(receipts))
    loud = controller.observe(controller.init(4), replace(facts(receipts), noise_energy=0.9))
    assert loud.signal < quiet.signal
    known = np.arange(4)
    tau, _ = controller._best_tau(quiet, known)
    noisy_tau, _ = controller._best_tau(replace(quiet, noise_energy=1000 * quiet.signal), known)
    assert noisy_tau < tau


@pytest.mark.parametrize("least", [0.5, 1.5])
def test_a_node_may_ask_for_noise(least: float) -> None:
    check_noise(None, task(LOCAL), least)
    for bad in (task(CENTRAL), task(Privacy()), replace(task(LOCAL), noise_deviation=0.1)):
        with pytest.raises(ConfigError, match="this node's config asks for at least"):
            check_noise(None, bad, least)
    probing = Sync(0, 1, 1, 0, (b"x",), b"", probe=(Float32(), Float32()))
    with pytest.raises(ConfigError, match="no losses"):
        check_noise(probing, None, least)
    with pytest.raises(ConfigError, match="no losses"):
        check_noise(None, None, least, evaluate=True)
