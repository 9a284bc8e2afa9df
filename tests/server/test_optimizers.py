"""Server optimizers by hand, as suffixes of methods, and through a checkpoint."""

import logging
from itertools import islice
from math import nan, sqrt
from pathlib import Path

import numpy as np
import pytest
from test_synchronous import SCHEDULE, backend, rounds

from adagq.core.errors import ConfigError
from adagq.core.messages import Receipt
from adagq.core.vectors import Layout
from adagq.experiments.checkpoint import load, save
from adagq.methods.table import method_of
from adagq.rounds import synchronous
from adagq.server.optimizers import OPTIMIZERS, Adam, Auto, FedExP, Momentum, Nesterov, Optimizer, Plain, Yogi
from adagq.simulation.processes import open_pool
from toy import ToySpec

LAYOUT = Layout.of_sizes([2])
MEANS = ([1.0, -2.0], [3.0, 0.0], [-1.0, 4.0])


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (Plain(), [[1.0, -2.0], [3.0, 0.0], [-1.0, 4.0]]),
        (Plain(rate=0.5), [[0.5, -1.0], [1.5, 0.0], [-0.5, 2.0]]),
        # b: (1, -2); 0.5 b + g = (3.5, -1); 0.5 b + g = (0.75, 3.5)
        (Momentum(momentum=0.5), [[1.0, -2.0], [3.5, -1.0], [0.75, 3.5]]),
        (Momentum(momentum=0.5, rate=2.0), [[2.0, -4.0], [7.0, -2.0], [1.5, 7.0]]),
        # 0.5 b + g with the same b: (1.5, -3); (4.75, -0.5); (-0.625, 5.75)
        (Nesterov(momentum=0.5), [[1.5, -3.0], [4.75, -0.5], [-0.625, 5.75]]),
        (Nesterov(momentum=0.5, rate=2.0), [[3.0, -6.0], [9.5, -1.0], [-1.25, 11.5]]),
        (Nesterov(momentum=0.0), [[1.0, -2.0], [3.0, 0.0], [-1.0, 4.0]]),
    ],
)
def test_steps_by_hand(optimizer: Optimizer, expected: list[list[float]]) -> None:
    state: dict = {}
    for g, step in zip(MEANS, expected, strict=True):
        mean = np.array(g, np.float32)
        vector, state = optimizer.step(mean, state, (), LAYOUT)
        assert vector.tolist() == step
        assert vector.dtype == np.float32
        assert mean.tolist() == g  # the input is not written to


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Plain, {"rate": 0.0}, r"rate = 0\.0: must be a number above 0"),
        (Plain, {"rate": float("nan")}, "rate = nan"),
        (Momentum, {"momentum": 1.0}, r"momentum = 1\.0: must be a number from 0 to below 1"),
        (Nesterov, {"momentum": -0.1}, r"momentum = -0\.1"),
        (Nesterov, {"momentum": True}, "momentum = True"),
        (Momentum, {"rate": "1"}, "rate = '1'"),
        (Adam, {"second": 1.0}, r"second = 1\.0: must be a number from 0 to below 1"),
        (Yogi, {"epsilon": 0.0}, r"epsilon = 0\.0: must be a number above 0"),
        (FedExP, {"largest": 0.5}, r"largest = 0\.5: must be a number >= 1"),
        (Auto, {"largest": nan}, "largest = nan"),
        (Auto, {"momentum": 1.5}, r"momentum = 1\.5"),
    ],
)
def test_settings_that_cannot_work_name_key_value_and_range(kind, settings: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**settings)


def receipt(client: int, energy: float, error_energy: float = 0.0, examples: int = 100) -> Receipt:
    return Receipt(client, 1, examples, 0, 100, 100, energy, error_energy, (), 1.0, 1.0, 1.0, 1.0)


def steps(optimizer: Optimizer, means, receipts=(), layout: Layout = LAYOUT) -> list[list[float]]:
    state, made = {}, []
    for g in means:
        vector, state = optimizer.step(np.array(g, np.float32), state, receipts, layout)
        made.append(vector.tolist())
    return made


def test_adam_by_hand_with_one_second_moment_per_tensor() -> None:
    optimizer = Adam(rate=0.1, momentum=0.5, second=0.75, epsilon=0.5)
    first, second = steps(optimizer, [[3.0, 4.0, 2.0], [1.0, 0.0, 0.0]], layout=Layout.of_sizes([2, 1]))
    # m / (1 - 0.5) = g; v / (1 - 0.75) = mean of the squares: 12.5 and 4
    root = sqrt(12.5) + 0.5
    np.testing.assert_allclose(first, [0.3 / root, 0.4 / root, 0.2 / 2.5], rtol=1e-6)
    # m = 0.5 (1.5, 2, 1) + 0.5 (1, 0, 0) over 0.75; v = 0.75 (3.125, 1) + 0.25 (0.5, 0) over 1 - 0.75^2
    roots = np.sqrt(np.array([2.46875, 2.46875, 0.75]) / 0.4375) + 0.5
    np.testing.assert_allclose(second, 0.1 * np.array([1.25, 1.0, 0.5]) / 0.75 / roots, rtol=1e-6)


def test_yogi_by_hand() -> None:
    optimizer = Yogi(rate=0.1, momentum=0.5, second=0.75, epsilon=0.5)
    first, second, third = steps(optimizer, [[2.0], [1.0], [4.0]], layout=Layout.of_sizes([1]))
    assert first == pytest.approx([0.1 * 2.0 / 2.5])
    # m = 0.5 * 1 + 0.5 over 0.75; v = 4 - 0.25 * 1 * sign(3)
    assert second == pytest.approx([0.1 * (1.0 / 0.75) / (sqrt(3.75) + 0.5)])
    # m = 0.5 * 1 + 2 over 0.875; v = 3.75 + 0.25 * 16
    assert third == pytest.approx([0.1 * (2.5 / 0.875) / (sqrt(7.75) + 0.5)])


@pytest.mark.parametrize(
    ("receipts", "factor"),
    [
        ([receipt(0, 100.0), receipt(1, 300.0)], 4.0),  # 200 / (2 * 25)
        ([receipt(0, 100.0, examples=300), receipt(1, 300.0)], 3.0),  # (0.75 * 100 + 0.25 * 300) / 50
        ([receipt(0, 30.0), receipt(1, 30.0)], 1.0),  # never shorter than the mean
        ([receipt(0, 100.0, 20.0), receipt(1, 100.0, 20.0)], 100 / 30),  # noise of 2 * 20 / 4 leaves 15 of 25
        ([receipt(0, 10.0, 1e6), receipt(1, 10.0, 1e6)], 4.0),  # no account leaves less than a twentieth of it
        ([receipt(0, 100.0), receipt(1, 100.0), receipt(2, 1e30)], 500 / 3 / 50),  # one loud client counts thrice
        ([receipt(0, nan), receipt(1, 100.0, nan), receipt(2, 100.0)], 2.0),
        ([receipt(0, 1e9), receipt(1, 1e9)], 10.0),  # the limit
        ([], 1.0),
    ],
)
def test_fedexp_by_hand(receipts: list[Receipt], factor: float) -> None:
    assert steps(FedExP(), [[3.0, 4.0]], receipts)[0] == pytest.approx([3.0 * factor, 4.0 * factor])


def test_auto_goes_as_far_as_fedexp_allows_and_means_agree() -> None:
    quarrel = [receipt(0, 150.0), receipt(1, 150.0)]  # fedexp: 150 / (2 * 25) = 3
    along, across = steps(Auto(momentum=0.5), [[3.0, 4.0], [3.0, 4.0]], quarrel), [[3.0, 4.0], [-4.0, 3.0]]
    assert along[0] == [4.5, 6.0]  # nothing to agree with: Nesterov's step
    assert along[1] == pytest.approx([0.5 * (0.5 * 3.0 + 9.0) + 9.0, 0.5 * (0.5 * 4.0 + 12.0) + 12.0])
    assert steps(Auto(momentum=0.5), across, quarrel) == steps(Nesterov(momentum=0.5), across)
    assert steps(Auto(momentum=0.5, largest=1.0), [[3.0, 4.0]] * 3, quarrel) == steps(
        Nesterov(momentum=0.5), [[3.0, 4.0]] * 3
    )


@pytest.mark.parametrize("optimizer", [Momentum(), Nesterov(), Auto()])
def test_a_mean_against_the_velocity_restarts_momentum_and_says_so(optimizer, caplog) -> None:
    with caplog.at_level(logging.INFO, "adagq"):
        made = steps(optimizer, [[1.0, 0.0], [1.0, 0.0], [-1.0, 0.1]])
        assert "turns against the velocity; momentum restarts" in caplog.text
    assert made[2] == pytest.approx([-1.0, 0.1])


@pytest.mark.parametrize("optimizer", [Momentum(), Nesterov(), Auto()])
def test_an_outsized_mean_is_cut_and_not_carried_on(optimizer, caplog) -> None:
    made = steps(optimizer, [[1.0, 0.0], [1e6, 0.0], [1.0, 0.0]])
    assert "is cut to 7.14; momentum restarts" in caplog.text
    assert made[1] == pytest.approx([5.0 / 0.7, 0.0])
    assert made[2][0] < 20.0


@pytest.mark.parametrize("curvature", [0.3, 1.0, 1.6, 1.9])
@pytest.mark.parametrize("optimizer", [Momentum(0.9), Nesterov(0.9), Auto(), FedExP()])
def test_restarts_keep_a_quadratic_from_running_away(optimizer, curvature: float) -> None:
    """Plain descent converges at all of these curvatures, and so does every optimizer over it."""
    x, state, clients = np.array([1.0, 1.0], np.float32), {}, [receipt(i, 1.0) for i in range(4)]
    scale = np.array([curvature, curvature / 20], np.float32)
    largest = 0.0
    for _ in range(300):
        mean = scale * x
        energy = float(np.dot(mean, mean))
        same = [receipt(i, energy) for i in range(len(clients))]
        vector, state = optimizer.step(mean, state, same, LAYOUT)
        x = x - vector
        largest = max(largest, float(np.abs(x).max()))
    assert np.abs(x).max() < (1 - curvature / 20) ** 300 + 1e-3  # plain descent's
    assert largest < 10.0


def test_ideal_stays_plain_and_with_a_suffix_is_a_reference_of_its_own() -> None:
    ideal, nesterov = method_of("ideal"), method_of("ideal+nesterov")
    assert (ideal.optimizer, nesterov.optimizer) == (Plain(), Nesterov())
    assert nesterov.free_links
    plain, moved = rounds(ideal, 3), rounds(nesterov, 3)
    assert plain[0].row["norm"] == moved[0].row["norm"]
    assert plain[0].row["loss"] != moved[0].row["loss"]
    assert {one.row["method"] for one in moved} == {"ideal+nesterov"}
    assert [one.row["round_seconds"] for one in plain] == [one.row["round_seconds"] for one in moved]


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_no_optimizer_sends_an_extra_byte(name: str) -> None:
    plain, other = rounds(method_of("qsgd"), 4), rounds(method_of(f"qsgd+{name}"), 4)
    for key in ("upload_bytes", "download_bytes"):
        assert [one.row[key] for one in plain] == [one.row[key] for one in other]


def test_an_unknown_suffix_names_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown suffix 'adamm' of 'qsgd'; known: residual, half, adam, .*momentum, nesterov"
    ):
        method_of("qsgd+adamm")


@pytest.mark.parametrize(
    "name", ["qsgd+momentum", "adagq-fit+nesterov", "qsgd+residual+nesterov", "adagq-fit+auto", "qsgd+yogi"]
)
def test_state_survives_a_checkpoint(tmp_path: Path, name: str) -> None:
    method, path = method_of(name), tmp_path / "checkpoint.npz"
    run = {"method": name, "seed": SCHEDULE.seed, "marks": {}, "settings": "these"}
    with open_pool(1) as pool:
        running, whole = backend(pool, method), []
        for one in islice(synchronous(method, running, SCHEDULE), 6):
            whole.append(one.row)
            if one.row["round"] == 3:
                save(path, run, one.state, running.checkpoint())
                before = {key: array.copy() for key, array in one.state.model.optimizer_state.items()}
    saved = load(path)
    assert saved is not None
    with open_pool(1) as pool:
        running = backend(pool, method)
        running.restore(saved.backend)
        state = saved.restore(method, running.layout)
        assert before
        assert state.model.optimizer_state.keys() == before.keys()
        for key, array in before.items():
            np.testing.assert_array_equal(state.model.optimizer_state[key], array)
        rest = [one.row for one in islice(synchronous(method, running, SCHEDULE, state), 3)]
    assert rest == whole[3:]


@pytest.mark.parametrize("elements", [20_000, 200_000])
def test_the_row_of_our_best_sends_its_first_payload_at_the_same_bits_on_any_model(elements: int) -> None:
    spec = ToySpec(layout=Layout.of({"weight": np.zeros(elements, np.float32)}))
    first, second = rounds(method_of("adagq-auto"), 2, spec=spec)
    bits = [8 * line["upload_bytes"] / elements for line in first.ledger]
    assert 0.25 < min(bits) <= max(bits) < 1.03 * 0.3  # levels are whole, and fitted by a prediction of the bytes
    assert not first.incidents
    assert not second.incidents
