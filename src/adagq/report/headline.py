"""The first sentence of the report: who was fastest, by how much, and how near to what is possible."""

from adagq.report.summary import Summary, is_reference
from adagq.report.table import fastest_method
from adagq.report.units import percent, seconds_text

ALIKE = 1.005  # times nearer to each other than this are not told apart


def headline(summary: Summary) -> str:
    """One sentence that claims no more than the seeds show."""
    run, methods = summary["run"], summary["methods"]
    target = percent(run["target"])
    rivals = {name: record for name, record in methods.items() if not is_reference(name, summary)}
    best = fastest_method(summary)
    if best is None:
        return _nobody(rivals, target)
    record = methods[best]
    parts = [f"{best} reaches {target} accuracy in {seconds_text(record['seconds']['mean'])}"]
    if best != run["baseline"]:
        if record["speedup"]["mean"] is not None:
            parts.append(_faster(record["speedup"]["mean"], run["baseline"]))
        elif record["speedup_at_least"]["mean"] is not None:
            parts.append(f"while {run['baseline']} did not get there in {_spent(rivals[run['baseline']])}")
    if record["tax"]["mean"] is not None:
        parts.append(_limit(record["tax"]["mean"]))
    return ", ".join(parts) + "."


def runner_up(summary: Summary) -> str:
    """How far the next best is behind; empty if there is none."""
    best = fastest_method(summary)
    methods = summary["methods"]
    times = {
        name: record["seconds"]["mean"]
        for name, record in methods.items()
        if record["reached"] == 1 and name != best and not is_reference(name, summary)
    }
    if best is None or not times:
        return ""
    second = min(times, key=times.__getitem__)
    factor = times[second] / methods[best]["seconds"]["mean"]
    if factor < ALIKE:
        return f"The next best, {second}, takes as long ({seconds_text(times[second])})."
    return f"The next best, {second}, takes {factor:.2f} times as long ({seconds_text(times[second])})."


def _faster(speedup: float, baseline: str) -> str:
    if speedup < ALIKE:
        return f"as does {baseline}"
    return f"{speedup:.{1 if speedup >= 1.1 else 2}f} times as fast as {baseline}"


def _limit(tax: float) -> str:
    if tax < 1:
        return "faster than one-epoch rounds over free links"
    if tax < 2:
        return f"{percent(tax - 1)} more than the same fleet needs with free links"
    return f"{tax:.1f} times what the same fleet needs with free links"


def _spent(record: dict[str, dict[str, dict[str, float]]]) -> str:
    return seconds_text(record["missed"]["seconds"]["mean"])


def _nobody(rivals: Summary, target: str) -> str:
    """No method got there with all of its seeds."""
    partial = {name: record for name, record in rivals.items() if record["reached"] > 0}
    if partial:
        name = max(partial, key=lambda each: partial[each]["reached"])
        seeds = [seed["reached"] for seed in partial[name]["per_seed"].values()]
        share = f"{sum(seeds)} of {len(seeds)}"
        return f"No method reached {target} accuracy with every seed; {name} did with {share}."
    known = {name: record for name, record in rivals.items() if record["best_accuracy"]["mean"] is not None}
    if not known:
        return f"No method reached {target} accuracy: no round was evaluated."
    name = max(known, key=lambda each: known[each]["best_accuracy"]["mean"])
    best = percent(known[name]["best_accuracy"]["mean"], 2)
    return f"No method reached {target} accuracy; {name} came nearest with {best} in {_spent(known[name])}."
