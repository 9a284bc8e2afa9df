"""One colour, one dash pattern and one place per method, the same in every figure and on the page.

A row of the table of methods names its ink; a name with a suffix (`qsgd+nesterov`) has the ink of its row with dashes
of its own, and a method that no row knows takes the next free ink. The colours differ for people with the common
colour-vision deficiencies too (after Okabe and Ito, with the lightness spread further); dashes say the same without.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

REFERENCE = "ideal"


@dataclass(frozen=True, slots=True)
class Ink:
    """How one method is drawn on white and on black; `dash` in SVG's notation, empty for a solid line."""

    light: str
    dark: str
    dash: str = ""
    width: float = 1.8


INKS = {
    "vermilion": Ink("#d55e00", "#ff8b3e", width=2.8),
    "navy": Ink("#0b4f8a", "#5b9df0", width=2.2),
    "green": Ink("#007a5a", "#2cc295"),
    "ochre": Ink("#8a6d00", "#e8d44d", "7 3"),
    "sky": Ink("#2f93d6", "#7dcbf7", "2 2.5"),
    "mauve": Ink("#b34a86", "#f0a3cd", "9 3 2 3"),
    "violet": Ink("#6b4aa0", "#bb9cf0", "5 2"),
    "grey": Ink("#6b7280", "#9aa3af", "1.5 3"),
    "rust": Ink("#8c3b12", "#d99a6c", "4 2"),
    "moss": Ink("#4d7c0f", "#a3d65c", "8 2 2 2"),
    "teal": Ink("#0e7490", "#4fd1dd", "3 2"),
    "rose": Ink("#9d174d", "#ff7fae", width=2.8),
    "slate": Ink("#3f3f46", "#d4d4d8", "1 2"),
}
SUFFIX_DASHES = ("6 3", "2 2", "10 3 2 3", "4 1.5 1 1.5")

PHASES = ("compute", "upload", "download", "waiting", "server")
PHASE_INKS = {
    "compute": Ink("#4c6a92", "#7fa3d6"),
    "upload": Ink("#e08214", "#f5a142"),
    "download": Ink("#67b7dc", "#4fb3d9"),
    "waiting": Ink("#ccd1d8", "#49505e"),
    "server": Ink("#8c6bb1", "#b79ae0"),
}


def base_of(method: str) -> str:
    """Return the row that a method's name begins with.

    >>> base_of("qsgd+nesterov")
    'qsgd'
    """
    return method.partition("+")[0]


def ordered(methods: Iterable[str]) -> list[str]:
    """Return methods in the order of the table, then others by name; the reference comes last."""
    from adagq.methods.table import METHODS  # takes its time to import: the codecs come with it

    place = {name: index for index, name in enumerate(METHODS)}
    return sorted(
        set(methods), key=lambda name: (base_of(name) == REFERENCE, place.get(base_of(name), len(place)), name)
    )


def inks(methods: Iterable[str]) -> dict[str, Ink]:
    """Return an ink for every method, in the order given."""
    from adagq.methods.table import METHODS

    names = list(methods)
    own = {name: row.ink for name, row in METHODS.items() if row.ink}
    spare = [ink for name, ink in INKS.items() if name not in own.values()]
    found: dict[str, Ink] = {}
    for name in ordered({base_of(name) for name in names}):
        strange = [other for other in found if other not in own]
        found[name] = INKS[own[name]] if name in own else spare[len(strange) % len(spare)]
    dashes: dict[str, int] = {}
    for name in ordered(names):
        base = base_of(name)
        if name != base:
            dash = SUFFIX_DASHES[dashes.setdefault(base, 0) % len(SUFFIX_DASHES)]
            dashes[base] += 1
            found[name] = replace(found[base], dash=dash)
    return {name: found[name] for name in names}
