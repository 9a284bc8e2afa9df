"""What the paper's figures plot over rounds: means over seeds of the rounds that all seeds have."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adagq.report.palette import ordered
from adagq.report.run import Floats, Row, number
from adagq.report.summary import by_seed


@dataclass(frozen=True)
class OverRounds:
    """One column of the rows of a method."""

    rounds: Floats
    mean: Floats
    std: Floats


def over_rounds(rows: Sequence[Row], column: str) -> dict[str, OverRounds]:
    """Return `column` over rounds for every method that has it; rounds that a seed lacks are left out."""
    result: dict[str, OverRounds] = {}
    runs = by_seed(rows)
    for method in ordered(runs):
        seeds = [
            {int(row["round"]): value for row in run if (value := number(row.get(column))) is not None}
            for run in runs[method].values()
        ]
        common = sorted(set.intersection(*(set(seed) for seed in seeds)))
        if common:
            values = np.array([[seed[place] for place in common] for seed in seeds])
            std = values.std(axis=0, ddof=1) if len(seeds) > 1 else np.zeros(len(common))
            result[method] = OverRounds(np.array(common, dtype=float), values.mean(axis=0), std)
    return result
