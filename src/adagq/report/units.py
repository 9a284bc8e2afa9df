"""Numbers as people read them: seconds, bytes, shares, and means with their spread.

One column of a table keeps one unit (`pick_*`), a lone number gets the unit that suits it (`seconds_text`,
`bytes_text`). Decimal bytes, as links are sold in them: 1 MB is 10^6 bytes.

>>> seconds_text(75.0), seconds_text(8100.0), bytes_text(44_700_000), digits(0.01234)
('75.0 s', '2.25 h', '44.7 MB', '0.0123')
"""

import math
from collections.abc import Iterable

Unit = tuple[str, float]  # name, and how many seconds or bytes it holds

SECOND, MINUTE, HOUR, DAY = ("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86400.0)
BYTE, KILOBYTE, MEGABYTE, GIGABYTE = ("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)


def digits(value: float | None, significant: int = 3) -> str:
    """Three significant digits, no exponents, thousands apart: 0.0123, 4.57, 45.7, 457, 45 700."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if exponent >= significant - 1:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.{min(8, significant - 1 - exponent)}f}"


def pick_seconds(values: Iterable[float | None]) -> Unit:
    """The unit in which the smallest of these is still a readable number."""
    least = min((value for value in values if value), default=1.0)
    return next((unit for unit in (DAY, HOUR, MINUTE) if least >= 2 * unit[1]), SECOND)


def pick_bytes(values: Iterable[float | None]) -> Unit:
    """MB, unless all of them are far too large or some too small for it."""
    known = [value for value in values if value]
    if not known:
        return MEGABYTE
    if min(known) >= 10e9:
        return GIGABYTE
    return MEGABYTE if max(known) >= 1e6 else KILOBYTE


def seconds_text(value: float | None) -> str:
    """A lone duration in the unit that suits it."""
    if value is None or not math.isfinite(value):
        return "–"
    name, size = next((unit for unit in (DAY, HOUR, MINUTE) if value >= 2 * unit[1]), SECOND)
    return f"{digits(value / size)} {name}"


def bytes_text(value: float | None) -> str:
    """A lone amount of data in the unit that suits it."""
    if value is None or not math.isfinite(value):
        return "–"
    units = (GIGABYTE, MEGABYTE, KILOBYTE)
    name, size = next((unit for unit in units if value >= unit[1]), BYTE)
    return f"{digits(value / size)} {name}"


def percent(share: float | None, decimals: int = 1) -> str:
    """0.8512 -> 85.1 %; trailing zeros of a round target go (85 %)."""
    if share is None or not math.isfinite(share):
        return "–"
    text = f"{100 * share:.{decimals}f}"
    return (text.removesuffix("." + "0" * decimals) if decimals else text) + " %"


def time_word(clock: str) -> str:
    """What seconds are called: those of a simulation are virtual, those of a deployment were measured."""
    return "time" if clock == "measured" else "virtual time"


def scale_note(payload_scale: float) -> str:
    """What every table and figure of a scaled run has to say; empty when payloads count as they are."""
    if payload_scale == 1:
        return ""
    return (
        f"payload_scale = {payload_scale:g}: a small model stands in for a large one, "
        f"each payload counts {payload_scale:g} times, in bytes and in seconds."
    )
