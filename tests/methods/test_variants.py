"""Rows of one's own: what may be changed, and what a user's mistake says."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from adagq.codecs import QSGD, TopK
from adagq.control import Fit, Fixed
from adagq.core.errors import ConfigError
from adagq.experiments.config import load_config, on_defaults, resolve, to_toml
from adagq.experiments.runner import goals_of, run
from adagq.methods.table import method_of
from adagq.methods.variants import rows_of
from adagq.rounds import LOOPS, Buffered, loop_of


def test_a_variant_changes_only_what_it_names() -> None:
    row = rows_of({"mine": {"base": "adagq-fit", "controller": {"noise_cost": 0.5}, "epochs": 2}})["mine"]
    assert isinstance(row.controller, Fit)
    assert row.controller.noise_cost == 0.5
    assert row.controller.broadcast_cost == Fit().broadcast_cost
    assert row.epochs == 2
    assert row.name == "mine"


def test_a_variant_may_use_another_codec_and_controller_and_be_a_base() -> None:
    rows = rows_of(
        {
            "sparse": {"base": "qsgd", "uplink": {"kind": "topk", "fraction": 0.01}, "residual": True},
            "slow-4": {"base": "sparse", "uplink": {"kind": "qsgd", "levels": 63},
                       "controller": {"kind": "fixed", "by_client": {"3": 15}}},
        }
    )  # fmt: skip
    assert rows["sparse"].uplink == TopK(fraction=0.01)
    assert rows["slow-4"].uplink == QSGD(levels=63)
    assert rows["slow-4"].controller == Fixed(by_client={3: 15})
    assert rows["slow-4"].residual


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "variants.mine.base: not set; it must be the name of the method that it changes"),
        (3, "variants.mine = 3: must be a table"),
        ({"base": "qsdg"}, "unknown method 'qsdg': did you mean 'qsgd'"),
        ({"base": "qsgd", "epoch": 2}, "unknown key 'variants.mine.epoch': did you mean 'variants.mine.epochs'?"),
        ({"base": "qsgd", "epochs": 0}, "variants.mine.epochs = 0: must be a number > 0"),
        (
            {"base": "qsgd", "uplink": {"level": 3}},
            "variants.mine.uplink: qsgd has no 'level': did you mean 'levels'? It has levels",
        ),
        ({"base": "qsgd", "uplink": {"levels": -3}}, "variants.mine.uplink: "),
        (
            {"base": "qsgd", "uplink": {"kind": "zip"}},
            "variants.mine.uplink: unknown codec 'zip': did you mean 'clipped'? Known: ",
        ),
        ({"base": "qsgd", "uplink": 3}, "variants.mine.uplink = 3: must be a table"),
        (
            {"base": "qsgd", "controller": {"kind": "fits"}},
            "variants.mine.controller: unknown controller 'fits': did you",
        ),
        ({"base": "qsgd", "controller": {"by_client": {"x": 3}}}, "variants.mine.controller: invalid literal"),
    ],
)
def test_mistakes_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        rows_of({"mine": changes})


def test_names_of_the_table_are_taken() -> None:
    with pytest.raises(ConfigError, match="there is a method of this name"):
        rows_of({"qsgd": {"base": "fedavg"}})


def test_a_run_uses_its_variants(tmp_path: Path) -> None:
    tree = {
        "methods": ["slow"],
        "training": {"max_rounds": 2, "target": 1.0},
        "variants": {"slow": {"base": "qsgd", "controller": {"kind": "fixed", "levels": 255, "by_client": {"3": 3}}}},
        "task": {"clients": 4, "data": "digits", "model": "mlp", "width": 8},
    }
    config = resolve(tree)
    (tmp_path / "again.toml").write_text(to_toml(config))
    assert load_config(tmp_path / "again.toml") == config
    steps = list(run(config, tmp_path / "run"))
    assert [step.row["levels"] for step in steps] == [(3 * 255 + 3) / 4] * 2


def test_a_loops_knobs_come_from_settings() -> None:
    rows = rows_of(
        {
            "eager": {"base": "fedbuff", "loop": {"arrivals": 3, "exponent": 1.0, "rate": 0.5}},
            "eagerer": {"base": "eager", "loop": {"arrivals": 2}},
            "by-name": {"base": "eager", "loop": "fedasync"},
            "other": {"base": "qsgd", "loop": {"kind": "fedsa", "lag": 2}},
        }
    )
    assert loop_of(rows["eager"]) == Buffered(arrivals=3, exponent=1.0, rate=0.5)
    assert loop_of(rows["eagerer"]) == Buffered(arrivals=2, exponent=1.0, rate=0.5)
    assert loop_of(rows["by-name"]) == LOOPS["fedasync"]
    assert loop_of(rows["other"]) == replace(LOOPS["fedsa"], lag=2)


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ({"base": "fedbuff", "loop": {"arrival": 3}}, "loop 'fedbuff' has no 'arrival': did you mean 'arrivals'"),
        ({"base": "qsgd", "loop": {"arrivals": 3}}, "loop 'synchronous' has no 'arrivals':  It has no settings"),
        ({"base": "qsgd", "loop": {"kind": "fedbuf"}}, "unknown loop 'fedbuf': did you mean 'fedbuff'"),
        ({"base": "fedbuff", "loop": {"arrivals": 0}}, "arrivals = 0"),
        ({"base": "fedbuff", "loop": {"kind": 3}}, "must be the name of a loop"),
        ({"base": "qsgd", "aggregate": "majorit"}, "unknown aggregate 'majorit': did you mean 'majority'"),
    ],
)
def test_a_loop_or_aggregate_that_does_not_exist_is_named(variant: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        resolve(on_defaults({"variants": {"mine": variant}, "methods": ["mine"]}))


def test_without_a_barrier_the_limit_of_rounds_is_one_of_work() -> None:
    config = resolve(on_defaults({"training": {"max_rounds": 10}, "methods": ["fedasync", "fedbuff", "qsgd"]}))
    limits = {name: goal.max_rounds for name, goal in goals_of(config, config.methods).items()}
    assert limits == {"fedasync": 200, "fedbuff": 40, "qsgd": 10}


def test_any_row_takes_half_of_its_epochs_as_a_suffix_or_in_settings() -> None:
    assert (method_of("eden+nesterov+half").epochs, method_of("fedavg+half").epochs) == (0.5, 2.5)
    assert rows_of({"mine": {"base": "eden", "epochs": 0.25}})["mine"].epochs == 0.25
    with pytest.raises(ConfigError, match="known: residual, half, "):
        method_of("eden+quarter")
