"""The rivals' rules as tables: what is known, and what must be decided."""

import json
import math

import pytest

from adagq.codecs import QSGD, Float32, TopK
from adagq.control import AdaComm, AdaQuantFL, DAdaQuant, Han, Lupa
from adagq.core.errors import ConfigError
from adagq.core.messages import Facts, Receipt, Report


def receipt(client: int = 0, loss: float = 1.0, examples: int = 100, upload: float = 4.0) -> Receipt:
    return Receipt(client, 1, examples, 0, 10, 10, 1.0, 0.1, (), loss, 1.0, 5.0, upload)


def after(controller, losses, examples=(100,)):
    """The state after rounds with these training losses; the first round has no receipts."""
    state = controller.observe(controller.init(1), Facts(1, (), (), math.nan, 0.0))
    for number, loss in enumerate(losses, start=2):
        receipts = tuple(receipt(client, loss, count) for client, count in enumerate(examples))
        state = controller.observe(state, Facts(number, (), receipts, 1.0, 0.0))
    assert controller.from_json(json.loads(json.dumps(state.to_json(), allow_nan=False))).to_json() == state.to_json()
    return state


@pytest.mark.parametrize(
    ("losses", "levels"),
    [
        ([], 2),  # nothing is known
        ([2.0], 2),
        ([2.0, 1.0], 3),  # ceil(2 sqrt 2)
        ([2.0, 0.5], 4),
        ([2.0, 0.02], 20),
        ([2.0, 8.0], 1),  # a loss that rose
        ([2.0, 0.5, math.nan], 4),  # what cannot be believed is skipped
        ([2.0, 1e-30], 65535),
    ],
)
def test_adaquantfl(losses, levels):
    controller = AdaQuantFL(levels=2)
    state = after(controller, losses)
    assert controller.choose(state, [3], QSGD())[3].codec.levels == levels
    assert controller.probe(state, [3], QSGD()) == {}
    assert controller.broadcast(state, 10) is None


@pytest.mark.parametrize(
    ("losses", "epochs"), [([], 5), ([2.0], 5), ([2.0, 1.0], 4), ([2.0, 0.5], 3), ([2.0, 0.001], 1), ([2.0, 8.0], 5)]
)
def test_adacomm(losses, epochs):
    controller = AdaComm(epochs=5)
    assert controller.choose(after(controller, losses), [0], Float32())[0].epochs == epochs


@pytest.mark.parametrize(("rounds", "epochs"), [(1, 2), (2, 2), (6, 4), (11, 6), (99, 8)])
def test_lupa(rounds, epochs):
    controller = Lupa(epochs=2, growth=0.2, epochs_max=8)
    assert controller.choose(after(controller, [1.0] * (rounds - 1)), [0], Float32())[0].epochs == epochs


@pytest.mark.parametrize(
    ("losses", "levels"),
    [
        ([], 2),
        ([1.0, 0.9, 0.8], 2),  # falling
        ([1.0, 1.0, 1.0], 2),  # not yet as long as the patience: two averages earlier there was none
        ([1.0, 1.0, 1.0, 1.0], 4),
        ([1.0] * 7, 8),  # 4 after four rounds, again after three more
        ([1.0] * 60, 16),  # the cap
        ([1.0, 1.0, 1.0, 0.5], 2),
    ],
)
def test_dadaquant_over_time(losses, levels):
    controller = DAdaQuant(levels=2, decay=0.5, patience=3, levels_max=16)
    state = after(controller, losses)
    assert state.levels == levels
    assert controller.choose(state, [0], QSGD())[0].codec.levels == levels  # one client: its share is 1


def test_dadaquant_over_clients_by_hand():
    """w = 1/9, 8/9: a = 1.1555, b = 0.8025 / 64, sqrt(a / b) = 9.6, times w^(2/3) = 0.231 and 0.925."""
    controller = DAdaQuant(levels=8)
    state = after(controller, [1.0], examples=(100, 800))
    levels = [choice.codec.levels for choice in controller.choose(state, [0, 1], QSGD()).values()]
    assert levels == [2, 9]
    variance = (1 / 9) ** 2 / 2.2188**2 + (8 / 9) ** 2 / 8.8752**2
    assert variance == pytest.approx(((1 / 9) ** 2 + (8 / 9) ** 2) / 8**2, rel=1e-3)  # as with 8 for both
    unknown = controller.choose(state, [0, 1, 7], QSGD())
    assert {choice.codec.levels for choice in unknown.values()} == {8}


def looked(controller, state, before, now, probed, upload=4.0, number=2):
    report = Report(0, number, 100, before, now, probed)
    return controller.observe(state, Facts(number, (report,), (receipt(upload=upload),), 1.0, 0.0))


def han_state(controller):
    return controller.observe(controller.init(1), Facts(1, (), (), math.nan, 0.0))


@pytest.mark.parametrize(
    ("losses", "upload", "direction"),
    [
        # eta = 0.4 / sqrt 2 = 0.2828, k = 0.2, k' = 0.2 - 0.1414 = 0.0586: T = 10, T' = 6 + 4 * 0.293 = 7.17
        ((1.0, 0.5, 0.5), 4.0, -1),  # the same fall in less time: tau' = 7.17 < 10
        ((1.0, 0.5, 0.8), 4.0, +1),  # tau' = 7.17 * 0.5 / 0.2 = 17.9
        ((1.0, 0.5, 0.65), 4.0, +1),  # 7.17 * 0.5 / 0.35 = 10.2
        ((1.0, 0.5, 0.63), 4.0, -1),  # 9.69
        ((1.0, 0.5, 0.51), 0.0, +1),  # uploads take no time: the smaller fall loses
        ((1.0, 1.1, 0.9), 4.0, 0),  # a loss rose: held
        ((1.0, 0.9, 1.0), 4.0, 0),
        ((1.0, math.nan, 0.9), 4.0, 0),
    ],
)
def test_han_moves_k_by_the_sign(losses, upload, direction):
    controller = Han(fraction=0.2, low=0.0, high=0.4)
    state = han_state(controller)
    assert state.eta == pytest.approx(0.4 / math.sqrt(2))
    assert state.probed == pytest.approx(0.2 - 0.2 / math.sqrt(2))
    moved = looked(controller, state, *losses, upload=upload)
    expected = min(max(0.2 + direction * state.eta, 1e-4), 0.4)
    assert moved.fraction == pytest.approx(expected)
    assert controller.choose(moved, [5], TopK())[5].codec == TopK(fraction=moved.fraction)
    assert controller.from_json(json.loads(json.dumps(moved.to_json()))) == moved


def test_han_probes_with_both_and_not_before_the_first_aggregate():
    controller = Han(fraction=0.2, low=0.0, high=0.4)
    assert controller.probe(controller.init(1), [0], TopK()) == {}
    state = han_state(controller)
    ((one, other),) = controller.probe(state, [0], TopK()).values()
    assert (one.fraction, other.fraction) == (state.fraction, state.probed)


def test_han_rises_after_ten_holds_and_its_range_shrinks_after_twenty_updates():
    controller = Han(fraction=0.2, low=0.1, high=0.4)
    state = han_state(controller)
    for number in range(9):
        state = looked(controller, state, 1.0, 1.1, 1.0, number=number + 2)
    assert (state.fraction, state.holds) == (0.2, 9)
    risen = looked(controller, state, 1.0, 1.1, 1.0)
    assert risen.fraction == pytest.approx(min(0.2 + state.eta, 0.4))
    assert (risen.holds, risen.updates) == (0, 1)
    for number in range(19):
        risen = looked(controller, risen, 1.0, 0.5, 0.9, number=number + 20)
    assert risen.updates == 20
    assert risen.high - risen.low < 0.3 / 1.49


@pytest.mark.parametrize(
    "make",
    [
        lambda: AdaQuantFL(levels=0), lambda: AdaComm(epochs=0), lambda: Lupa(growth=-1.0),
        lambda: Lupa(epochs=5, epochs_max=4), lambda: DAdaQuant(levels=9, levels_max=8), lambda: DAdaQuant(decay=1.0),
        lambda: Han(fraction=0.6, high=0.5), lambda: Han(low=-0.1),
    ],
)  # fmt: skip
def test_settings_are_checked(make):
    with pytest.raises(ConfigError, match="="):
        make()
