"""Paired differences: what they decide, and what they leave open."""

from typing import Any

import pytest

from adagq.paper.cells import Cell
from adagq.paper.claims import check_claims
from adagq.paper.findings import Finding
from adagq.paper.paired import difference_side, paired, student


def by_seed(*values: float) -> dict[str, float]:
    return {str(seed): value for seed, value in enumerate(values)}


def test_what_both_have_in_common_drops_out() -> None:
    slow, fast = by_seed(100, 200, 300), by_seed(90, 181, 269)  # seeds differ threefold, the pairs by a tenth
    compared = paired(fast, slow)
    assert compared is not None
    assert compared.ratio == pytest.approx(0.9)
    assert compared.error == pytest.approx(0.0029, abs=2e-4)
    assert compared.side() == -1
    assert compared.side(of=0.9) == 0
    alike = paired(by_seed(100.1, 200.2), by_seed(100, 200))
    assert alike is not None
    assert alike.side() == 0  # sure, and too little to matter


def test_seeds_that_only_one_has_do_not_count_and_one_pair_decides_nothing() -> None:
    compared = paired(by_seed(50), by_seed(100, 10, 10))
    assert compared is not None
    assert (compared.ratio, compared.error, compared.pairs, compared.side()) == (0.5, None, 1, 0)
    assert paired({"0": 1.0}, {"1": 1.0}) is None


@pytest.mark.parametrize(("values", "side"), [((1, 1.1, 0.9), 1), ((-2, -2.1), -1), ((1, -1, 3), 0), ((5,), 0)])
def test_the_side_of_differences(values: tuple[float, ...], side: int) -> None:
    assert difference_side(values) == side


def test_students_quantiles_go_over_into_the_normal_ones() -> None:
    assert student(1) == 12.706
    assert student(30) == pytest.approx(2.042, abs=5e-3)
    assert student(10_000) == pytest.approx(1.96, abs=1e-3)


def found(kind: str, own: list[float], other: list[float], **more: Any) -> Finding:
    methods = {
        name: {
            "reached": 1.0,
            "per_seed": {str(seed): {"reached": True, "seconds": time} for seed, time in enumerate(times)},
        }
        for name, times in {"adagq": own, "topk": other}.items()
    }
    claim = {"says": "", "kind": kind, "quantity": "seconds", "method": "adagq", "rivals": ["topk"]} | more
    [finding] = check_claims([claim], {"a": Cell("a", summary={"methods": methods})})
    return finding


@pytest.mark.parametrize(
    ("own", "verdict"),
    [([90, 91, 89], "yes"), ([110, 111, 109], "no"), ([90, 120, 85], "open"), ([50], "open")],
)
def test_an_order_holds_only_where_pairs_decide(own: list[float], verdict: str) -> None:
    assert found("less", own, [100] * len(own)).verdict == verdict


@pytest.mark.parametrize(
    ("own", "verdict"), [([60, 61, 59], "yes"), ([80, 81, 79], "no"), ([71, 60, 75], "open"), ([60], "open")]
)
def test_a_share_saved_holds_if_ours_is_surely_no_smaller(own: list[float], verdict: str) -> None:
    finding = found("saved", own, [100] * len(own), paper=[0.291, 0.348])
    assert finding.verdict == verdict
    assert finding.paper == "29.1 % to 34.8 %"


@pytest.mark.parametrize(
    ("own", "verdict"), [([101, 102, 100], "yes"), ([130, 131, 129], "no"), ([100, 130, 105], "open")]
)
def test_similar_is_within_a_tenth(own: list[float], verdict: str) -> None:
    assert found("ratio", own, [100] * len(own)).verdict == verdict
