"""summarize: the numbers of summary.json, by hand where they are few."""

import json
from typing import Any

import pytest

from adagq.core.errors import ConfigError
from adagq.report import summarize
from adagq.report.headline import headline, runner_up
from made_up import rows_and_ledger

Lines = list[dict[str, Any]]


def row(method: str, seed: int, number: int, seconds: float, accuracy: float | None) -> dict[str, Any]:
    """A round of ten seconds a piece: 4 computing, 3 up, 1 down, 1.5 waiting, 0.5 server; two clients."""
    return {
        "method": method,
        "seed": seed,
        "round": number,
        "seconds": seconds,
        "accuracy": accuracy,
        "clients": 2,
        "upload_bytes": 200,
        "download_bytes": 100,
        "compute_seconds": 4.0,
        "upload_seconds": 3.0,
        "download_seconds": 1.0,
        "waiting_seconds": 1.5,
        "server_seconds": 0.5,
    }


def test_a_server_optimizer_has_its_own_reference() -> None:
    paces = {"fedavg": 20.0, "qsgd": 12.0, "qsgd+nesterov": 9.0, "ideal": 8.0, "ideal+nesterov": 6.0}
    rows = [row(method, 0, n, n * pace, 0.9) for method, pace in paces.items() for n in (1, 2)]
    summary = summarize(rows, 0.8)
    taxes = {name: record["tax"]["mean"] for name, record in summary["methods"].items()}
    assert taxes == {"qsgd+nesterov": 1.5, "qsgd": 1.5, "fedavg": 2.5, "ideal+nesterov": 1.0, "ideal": 1.0}
    assert list(summary["methods"])[-2:] == ["ideal+nesterov", "ideal"]
    assert headline(summary).startswith("qsgd+nesterov reaches 80 % accuracy in 9.0")


def few_rows() -> Lines:
    """fedavg needs 3 and 5 rounds of 20 s, fast 2 of 10 s, ideal 2 of 8 s; lame never gets there."""
    rows = []
    for method, needed, pace in (("fedavg", (3, 5), 20.0), ("fast", (2, 2), 10.0), ("ideal", (2, 2), 8.0)):
        for seed, rounds in enumerate(needed):
            rows += [row(method, seed, n, n * pace, 0.9 if n >= rounds else 0.5) for n in range(1, rounds + 2)]
    return rows + [row("lame", seed, n, n * 10.0, 0.6 + n / 100) for seed in (0, 1) for n in (1, 2, 3)]


def test_hand_computed_numbers() -> None:
    summary = summarize(few_rows(), 0.8)
    fast, fedavg, ideal = (summary["methods"][name] for name in ("fast", "fedavg", "ideal"))
    assert fast["reached"] == 1
    assert fast["rounds"] == {"mean": 2, "std": 0}
    assert fast["seconds"]["mean"] == 20
    assert fast["upload_bytes"]["mean"] == 200  # two rounds of 200 bytes, for two clients
    assert fast["download_bytes"]["mean"] == 100
    assert fast["compute_seconds"]["mean"] == 8
    assert fast["tax"]["mean"] == pytest.approx(20 / 16)
    assert fast["speedup"]["mean"] == pytest.approx((60 / 20 + 100 / 20) / 2)
    assert fedavg["rounds"]["mean"] == 4
    assert fedavg["rounds"]["std"] == pytest.approx(2**0.5)
    assert fedavg["speedup"] == {"mean": 1, "std": 0}
    assert ideal["tax"]["mean"] == 1


def test_a_miss_says_where_it_got() -> None:
    lame = summarize(few_rows(), 0.8)["methods"]["lame"]
    assert lame["reached"] == 0
    assert lame["seconds"] == {"mean": None, "std": None}
    assert lame["tax"]["mean"] is None
    assert lame["missed"]["best_accuracy"]["mean"] == pytest.approx(0.63)
    assert lame["missed"]["seconds"]["mean"] == 30
    assert lame["missed"]["rounds"]["mean"] == 3


def test_some_seeds_miss() -> None:
    rows = [line for line in few_rows() if not (line["method"] == "fast" and line["seed"] == 1)]
    rows += [row("fast", 1, n, n * 10.0, 0.7) for n in (1, 2, 3)]
    fast = summarize(rows, 0.8)["methods"]["fast"]
    assert fast["reached"] == 0.5
    assert fast["seconds"]["mean"] == 20
    assert fast["missed"]["seconds"]["mean"] == 30


def test_a_baseline_that_misses_gives_a_bound() -> None:
    fast = summarize(few_rows(), 0.8, baseline="lame")["methods"]["fast"]
    assert fast["speedup"]["mean"] is None
    assert fast["speedup_at_least"]["mean"] == pytest.approx(30 / 20)


def test_phases_add_up_to_the_time(run_lines: tuple[Lines, Lines]) -> None:
    for record in summarize(run_lines[0], 0.85)["methods"].values():
        for seed in record["per_seed"].values():
            phases = ("compute", "upload", "download", "waiting", "server")
            parts = sum(seed[f"{phase}_seconds"] for phase in phases)
            assert parts == pytest.approx(seed["seconds"])


def test_rounds_that_were_not_evaluated_count_but_do_not_reach() -> None:
    rows = [
        row("fast", 0, 1, 10.0, None),
        row("fast", 0, 2, 20.0, float("nan")),
        row("fast", 0, 3, 30.0, 0.9),
    ]
    fast = summarize(rows, 0.8)["methods"]["fast"]
    assert fast["seconds"]["mean"] == 30
    assert fast["upload_bytes"]["mean"] == 300


def test_schema_is_the_promised_one_and_plain_json(run_lines: tuple[Lines, Lines]) -> None:
    summary = summarize(run_lines[0], 0.85, payload_scale=2.0, task="digits", fleet="paper")
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    promised = {"target", "seeds", "payload_scale", "task", "fleet", "clients"}
    assert promised <= summary["run"].keys()
    for record in summary["methods"].values():
        for key in ("rounds", "seconds", "upload_bytes", "download_bytes", "tax", "accuracy"):
            assert record[key].keys() == {"mean", "std"}


def test_order_of_rows_does_not_matter(run_lines: tuple[Lines, Lines]) -> None:
    assert summarize(reversed(run_lines[0]), 0.85) == summarize(run_lines[0], 0.85)


@pytest.mark.parametrize("target", [0.0, -0.1, 85.0])
def test_impossible_target(target: float) -> None:
    with pytest.raises(ConfigError, match="target"):
        summarize(few_rows(), target)


def test_headlines() -> None:
    assert headline(summarize(few_rows(), 0.8)) == (
        "fast reaches 80 % accuracy in 20.0 s, 4.0 times as fast as fedavg, "
        "25 % more than the same fleet needs with free links."
    )
    assert runner_up(summarize(few_rows(), 0.8)) == ("The next best, fedavg, takes 4.00 times as long (80.0 s).")
    lame = [line for line in few_rows() if line["method"] in ("lame", "fedavg")]
    assert headline(summarize(lame, 0.95)).startswith("No method reached 95 % accuracy; fedavg came nearest")
    assert "while lame did not get there in 30.0 s" in headline(summarize(few_rows(), 0.8, baseline="lame"))
    one = rows_and_ledger(("qsgd",), seeds=1)[0]
    assert headline(summarize(one, 0.85)).startswith("qsgd reaches 85 % accuracy in ")


def test_a_tie_is_no_speed_up() -> None:
    rows = rows_and_ledger(("qsgd", "fedavg"), seeds=1)[0]
    same = [{**row, "method": name} for row in rows if row["method"] == "qsgd" for name in ("qsgd", "fedavg")]
    summary = summarize(same, 0.85)
    summary["methods"] = {name: summary["methods"][name] for name in ("qsgd", "fedavg")}
    assert headline(summary).endswith(", as does fedavg.")
    assert " takes as long (" in runner_up(summary)
