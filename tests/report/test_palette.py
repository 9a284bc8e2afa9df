"""Colours: a row names its own, suffixes share it with other dashes, strangers take what is free."""

from adagq.experiments.config import Config
from adagq.methods.table import METHODS, compared
from adagq.report.palette import INKS, inks, ordered


def test_every_row_that_is_compared_has_a_colour_of_its_own() -> None:
    named = [row.ink for row in METHODS.values() if row.ink]
    assert len(set(named)) == len(named)
    assert set(named) <= set(INKS)
    found = inks(compared())
    assert list(found) == list(compared())
    assert len({ink.light for ink in found.values()}) == len(compared())
    assert found["adagq-fit"].light == "#d55e00"
    usual = found[Config().method]  # what people run stands out: solid, and no line is wider
    assert (usual.dash, usual.width) == ("", max(ink.width for ink in found.values()))
    dashes = [ink.dash for ink in found.values() if ink.dash]
    assert len(set(dashes)) == len(dashes)


def test_a_suffix_keeps_the_colour_and_changes_the_dashes() -> None:
    found = inks(["qsgd+nesterov", "qsgd", "qsgd+residual", "fedavg"])
    family = [found[name] for name in ("qsgd", "qsgd+nesterov", "qsgd+residual")]
    assert len({ink.light for ink in family}) == 1
    assert len({ink.dash for ink in family}) == 3
    assert found["fedavg"].light != family[0].light


def test_strangers_differ_from_all_named_ones() -> None:
    found = inks(["mine", "yours", *compared()])
    assert len({ink.light for ink in found.values()}) == len(found)


def test_the_order_is_the_tables_and_the_reference_comes_last() -> None:
    assert ordered(["mine", "ideal", "topk", "qsgd+residual", "qsgd"]) == [
        "qsgd", "qsgd+residual", "topk", "mine", "ideal",
    ]  # fmt: skip
