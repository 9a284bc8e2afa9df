"""The two controllers without allocation."""

import math

import pytest

from adagq.codecs import QSGD, Float32
from adagq.control import Fixed, NormOnly
from adagq.core.errors import ConfigError
from adagq.core.messages import Facts


def norms(controller, values):
    state = controller.init(2)
    for round, norm in enumerate(values, start=1):
        state = controller.observe(state, Facts(round, (), (), norm, 0.0))
    return state


def test_fixed_is_fixed():
    controller = Fixed(levels=127)
    state = norms(controller, [math.nan, 1.0, 2.0])
    assert controller.choose(state, [3, 5], QSGD())[5].codec.levels == 127
    assert controller.choose(state, [3], Float32())[3].codec == Float32()  # has no levels: stays as it is
    assert controller.probe(state, [3], QSGD()) == {}
    with pytest.raises(ConfigError, match="levels = -1"):
        Fixed(levels=-1)


@pytest.mark.parametrize(
    ("values", "gain", "expected"),
    [
        ([math.nan], 1.0, 255.0),
        ([math.nan, 4.0], 1.0, 255.0),  # one norm is no change yet
        ([math.nan, 4.0, 1.0], 1.0, 253.0),  # 255 + log2(1/4)
        ([math.nan, 4.0, 1.0, 2.0], 1.0, 254.0),  # + log2(2)
        ([math.nan, 4.0, 0.0, math.inf, math.nan, 1.0], 1.0, 253.0),  # no logarithm: skipped
        ([math.nan, 4.0, 1.0], 100.0, 55.0),
        ([math.nan, 4.0, 1.0], 1000.0, 1.0),  # the floor
    ],
)
def test_norm_only_follows_the_logarithm_of_the_norm(values, gain, expected):
    controller = NormOnly(gain=gain)
    state = norms(controller, values)
    assert state.levels == pytest.approx(expected, abs=1e-12)
    assert controller.choose(state, [0], QSGD())[0].codec.levels == round(expected)


def test_norm_only_checks_its_settings():
    with pytest.raises(ConfigError, match="levels = 0"):
        NormOnly(levels=0)
    with pytest.raises(ConfigError, match="levels_min = 9"):
        NormOnly(levels_min=9, levels_max=3)
    with pytest.raises(ConfigError, match="gain"):
        NormOnly(gain=math.nan)
