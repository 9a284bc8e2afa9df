"""One colour, one dash pattern and one place per method, the same in every figure and on the page.

The colours are told apart by people with the common colour-vision deficiencies (after Okabe and Ito, with the
lightness spread further); the dash patterns carry the same information without colour.
"""

from collections.abc import Iterable
from dataclasses import dataclass

REFERENCE = "ideal"


@dataclass(frozen=True, slots=True)
class Ink:
    """How one method is drawn on white and on black; `dash` in SVG's notation, empty for a solid line."""

    light: str
    dark: str
    dash: str = ""
    width: float = 1.8


METHOD_INKS = {
    "adagq-fit": Ink("#d55e00", "#ff8b3e", width=2.8),
    "adagq": Ink("#0b4f8a", "#5b9df0", width=2.2),
    "fedavg": Ink("#007a5a", "#2cc295"),
    "fedavg-fp16": Ink("#8a6d00", "#e8d44d", "7 3"),
    "qsgd": Ink("#2f93d6", "#7dcbf7", "2 2.5"),
    "topk": Ink("#b34a86", "#f0a3cd", "9 3 2 3"),
    "fedpaq": Ink("#6b4aa0", "#bb9cf0", "5 2"),
    REFERENCE: Ink("#6b7280", "#9aa3af", "1.5 3"),
}
SPARE_INKS = (
    Ink("#8c3b12", "#d99a6c", "4 2"),
    Ink("#4d7c0f", "#a3d65c", "8 2 2 2"),
    Ink("#0e7490", "#4fd1dd", "3 2"),
    Ink("#9d174d", "#ff7fae", "6 2 1 2"),
    Ink("#3f3f46", "#d4d4d8", "1 2"),
)

PHASES = ("compute", "upload", "download", "waiting", "server")
PHASE_INKS = {
    "compute": Ink("#4c6a92", "#7fa3d6"),
    "upload": Ink("#e08214", "#f5a142"),
    "download": Ink("#67b7dc", "#4fb3d9"),
    "waiting": Ink("#ccd1d8", "#49505e"),
    "server": Ink("#8c6bb1", "#b79ae0"),
}


def ordered(methods: Iterable[str]) -> list[str]:
    """Known methods in the palette's order of interest, then others by name; the reference comes last."""
    rank = {name: place for place, name in enumerate(METHOD_INKS)}
    return sorted(set(methods), key=lambda name: (name == REFERENCE, rank.get(name, len(rank)), name))


def inks(methods: Iterable[str]) -> dict[str, Ink]:
    """An ink for every method; methods that the palette does not know take the spare ones in order."""
    names = ordered(methods)
    spare = iter(SPARE_INKS * (1 + len(names) // len(SPARE_INKS)))
    return {name: METHOD_INKS.get(name) or next(spare) for name in names}
