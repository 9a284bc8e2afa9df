"""Rows -> summary.json: what every method needed until it first reached the target accuracy.

    {"run":     {"target", "seeds", "payload_scale", "task", "fleet", "clients", "clock", "baseline", "reference",
                 "target_named": false where the target is the best accuracy that every run reached},
     "methods": {name: {"reached": share of seeds,
                        "rounds", "seconds", "upload_bytes", "download_bytes", "round_seconds",
                        "compute_seconds", "upload_seconds", "download_seconds", "waiting_seconds",
                        "server_seconds",
                        "tax", "speedup", "accuracy", "best_accuracy", "speedup_at_least": {"mean", "std"},
                        "epsilon": the same, of the last round, where training was differentially private,
                        "missed": the same, of all rounds of the seeds that never got there; null if all did,
                        "per_seed": {seed: the numbers behind the means}}}}

Bytes are per client. The five kinds of seconds add up to `seconds`. `rounds` to `server_seconds`, `tax` and
`speedup` are over the seeds that reached the target (null if none did); `accuracy` (of the last round) and
`best_accuracy` are over all seeds. `tax` is over the reference's seconds of the same seed (`reference_of`), `speedup`
against the baseline's of the same seed; where the baseline itself missed, what it spent gives `speedup_at_least`.
Standard deviations are of the sample (n - 1); of one seed they are 0.
"""

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from adagq.core.errors import ConfigError
from adagq.report.palette import PHASES, REFERENCE, base_of, ordered
from adagq.report.run import Row, number

Spread = dict[str, float | None]
Summary = dict[str, Any]

SPENT = (
    "rounds",
    "seconds",
    "upload_bytes",
    "download_bytes",
    "round_seconds",
    *(f"{phase}_seconds" for phase in PHASES),
)


def summarize(
    rows: Iterable[Row],
    target: float,
    *,
    payload_scale: float = 1.0,
    task: str = "",
    fleet: str = "",
    clients: int | None = None,
    baseline: str = "fedavg",
    reference: str = REFERENCE,
) -> Summary:
    """The summary of a run. `clients` is the fleet's size; without it, the most that sent in one round."""
    if not 0 < target <= 1:
        raise ConfigError(f"target = {target}: an accuracy is above 0 and at most 1")
    runs = by_seed(rows)
    size = clients or max((int(row.get("clients") or 0) for run in _all(runs) for row in run), default=0) or 1
    records = {
        method: {seed: _until_target(run, target, size) for seed, run in seeds.items()}
        for method, seeds in runs.items()
    }
    for method, seeds in records.items():
        for seed, record in seeds.items():
            limit = records.get(reference_of(method, records, reference), {}).get(seed)
            _compare(record, records.get(baseline, {}).get(seed), limit)
            if method == baseline:
                record["speedup_at_least"] = None
    return {
        "run": {
            "target": target,
            "seeds": sorted({seed for seeds in runs.values() for seed in seeds}),
            "payload_scale": payload_scale,
            "task": task,
            "fleet": fleet,
            "clients": size,
            "clock": _clock(row for run in _all(runs) for row in run),
            "baseline": baseline,
            "reference": reference,
        },
        "methods": by_time({method: _method(records[method]) for method in ordered(runs)}, reference),
    }


def is_reference(method: str, summary: Summary) -> bool:
    """Whether a method has free links, with or without suffixes."""
    return base_of(method) == str(summary["run"]["reference"])


def reference_of(method: str, known: Collection[str], reference: str = REFERENCE) -> str:
    """Return what a method's tax is measured against: the reference with the same server optimizer, if it was run.

    >>> reference_of("qsgd+residual+nesterov", ["ideal", "ideal+nesterov"]), reference_of("qsgd+nesterov", ["ideal"])
    ('ideal+nesterov', 'ideal')
    """
    suffixes = [suffix for suffix in method.split("+")[1:] if suffix != "residual"]  # nothing is lost over free links
    own = "+".join([reference, *suffixes])
    return own if own in known else reference


def by_time(methods: Mapping[str, Any], reference: str = REFERENCE) -> dict[str, Any]:
    """Return methods fastest first, then those that missed the target with some seeds or all; last the reference."""
    key = {
        name: (base_of(name) == reference, -record["reached"] if record["missed"] else -1.0, _spent_seconds(record))
        for name, record in methods.items()
    }
    return {name: methods[name] for name in sorted(methods, key=key.__getitem__)}


def _spent_seconds(record: Mapping[str, Any]) -> float:
    return float(shown(record)["seconds"]["mean"])


def by_seed(rows: Iterable[Row]) -> dict[str, dict[int, list[Row]]]:
    """method -> seed -> its rows in the order of rounds."""
    runs: dict[str, dict[int, list[Row]]] = {}
    for row in rows:
        runs.setdefault(str(row["method"]), {}).setdefault(int(row["seed"]), []).append(row)
    for seeds in runs.values():
        for run in seeds.values():
            run.sort(key=lambda row: int(row["round"]))
    return runs


def target_index(run: Sequence[Row], target: float) -> int | None:
    """Position of the first row at or above the target."""
    for place, row in enumerate(run):
        accuracy = number(row.get("accuracy"))
        if accuracy is not None and accuracy >= target:
            return place
    return None


def shown(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The numbers to draw for a method: those to the target or, if no seed got there, all that it spent."""
    return record if record["reached"] or not record["missed"] else record["missed"]


def _all(runs: Mapping[str, Mapping[int, list[Row]]]) -> Iterable[list[Row]]:
    return (run for seeds in runs.values() for run in seeds.values())


def _clock(rows: Iterable[Row]) -> str:
    return "measured" if all(row.get("clock") == "measured" for row in rows) else "virtual"


def _until_target(run: Sequence[Row], target: float, clients: int) -> dict[str, Any]:
    place = target_index(run, target)
    used = run if place is None else run[: place + 1]
    accuracies = [value for row in run if (value := number(row.get("accuracy"))) is not None]
    record: dict[str, Any] = {
        "reached": place is not None,
        "rounds": int(used[-1]["round"]),
        "seconds": float(used[-1]["seconds"]),
        "round_seconds": float(used[-1]["seconds"]) / max(1, int(used[-1]["round"])),
        "upload_bytes": _total(used, "upload_bytes") / clients,
        "download_bytes": _total(used, "download_bytes") / clients,
    }
    record |= {f"{phase}_seconds": _total(used, f"{phase}_seconds") for phase in PHASES}
    record["accuracy"] = accuracies[-1] if accuracies else None
    record["best_accuracy"] = max(accuracies, default=None)
    if "epsilon" in run[-1]:  # of all rounds: what came after the target was released too
        record |= {"epsilon": run[-1]["epsilon"], "delta": run[-1]["delta"]}
    return record


def _total(run: Sequence[Row], key: str) -> float:
    return sum(number(row.get(key)) or 0.0 for row in run)


def _compare(record: dict[str, Any], baseline: Mapping[str, Any] | None, reference: Mapping[str, Any] | None) -> None:
    """Add tax, speed-up and its bound to one seed's record."""
    record |= {"tax": None, "speedup": None, "speedup_at_least": None}
    seconds = record["seconds"]
    if not record["reached"] or seconds <= 0:
        return
    if reference is not None and reference["reached"] and reference["seconds"] > 0:
        record["tax"] = seconds / reference["seconds"]
    if baseline is not None:
        record["speedup" if baseline["reached"] else "speedup_at_least"] = baseline["seconds"] / seconds


def _method(seeds: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    reached = [record for record in seeds.values() if record["reached"]]
    missed = [record for record in seeds.values() if not record["reached"]]
    result: dict[str, Any] = {"reached": len(reached) / len(seeds)}
    result |= {key: _spread(reached, key) for key in (*SPENT, "tax", "speedup", "speedup_at_least")}
    result |= {key: _spread(list(seeds.values()), key) for key in ("accuracy", "best_accuracy")}
    if all("epsilon" in record for record in seeds.values()):
        result["epsilon"] = _spread(list(seeds.values()), "epsilon")
    result["missed"] = {key: _spread(missed, key) for key in (*SPENT, "accuracy", "best_accuracy")} if missed else None
    result["per_seed"] = {str(seed): record for seed, record in sorted(seeds.items())}
    return result


def _spread(records: Sequence[Mapping[str, Any]], key: str) -> Spread:
    values = [float(record[key]) for record in records if record[key] is not None]
    if not values:
        return {"mean": None, "std": None}
    return {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else 0.0}
