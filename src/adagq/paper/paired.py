"""Two methods compared seed by seed: their ratio, how sure it is, and what it decides.

Both methods of a pair have the same clients, data and first model, so what a seed's luck does to both drops out. The
standard error is that of a quotient of means over pairs; a difference decides where it is larger than Student's
95 % interval, and than a hundredth. One pair decides nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

# Student's t, 97.5 %, for 1, 2, … degrees of freedom.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
NORMAL = 1.96
LEAST = 0.01  # a smaller difference matters to nobody, however sure it is
ENOUGH = 2  # seeds that a verdict needs


@dataclass(frozen=True)
class Paired:
    """The quotient of two means over the seeds that both have.

    >>> compared = paired({"0": 80.0, "1": 90.0, "2": 85.0}, {"0": 100.0, "1": 110.0, "2": 105.0})
    >>> compared.text(), compared.side()
    ('0.81 ± 0.01 (3 seeds)', -1)
    """

    ratio: float
    error: float | None  # standard error; None of a single pair
    pairs: int

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval; infinite where a single pair says nothing of it."""
        return math.inf if self.error is None else student(self.pairs - 1) * self.error

    def side(self, of: float = 1.0) -> int:
        """Return -1 or 1 if the ratio is surely below or above `of`, 0 where the data do not decide."""
        distance = self.ratio - of
        return 0 if abs(distance) <= max(self.half_width, LEAST) else int(math.copysign(1, distance))

    def text(self) -> str:
        """Return the ratio and its standard error."""
        error = "" if self.error is None else f" ± {self.error:.2f}"
        return f"{self.ratio:.2f}{error} ({self.pairs} seed{'s' if self.pairs != 1 else ''})"


def paired(own: Mapping[str, float], other: Mapping[str, float]) -> Paired | None:
    """Compare two methods over the seeds that both have; None if there is none."""
    both = sorted(own.keys() & other.keys())
    total = sum(other[seed] for seed in both)
    if not total:
        return None
    ratio = sum(own[seed] for seed in both) / total
    rest = [own[seed] - ratio * other[seed] for seed in both]
    return Paired(ratio, _standard_error(rest, total / len(both)), len(both))


def difference_side(differences: Sequence[float]) -> int:
    """Return the sign of the mean of paired differences if it is sure, else 0."""
    error = _standard_error(differences)
    mean = fmean(differences)
    sure = error is not None and abs(mean) > student(len(differences) - 1) * error
    return int(math.copysign(1, mean)) if sure else 0


def student(freedom: int) -> float:
    """Return Student's 97.5 % quantile."""
    return STUDENT[freedom - 1] if freedom <= len(STUDENT) else NORMAL + 2.55 / freedom


def _standard_error(values: Sequence[float], unit: float = 1.0) -> float | None:
    return None if len(values) < 2 else stdev(values) / math.sqrt(len(values)) / abs(unit)
