"""Where two settings files differ, in words: why a run cannot be continued."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

SHOWN: Final = 3
ABSENT: Final = object()


def settings_diff(there: str, here: str) -> str:
    """Return the keys whose values differ between two TOML texts; empty where all agree.

    >>> settings_diff("[training]\\ntarget = 0.9", "[training]\\ntarget = 0.95")
    'training.target is 0.9 there and 0.95 here'
    """
    try:
        first, second = (dict(_leaves(tomllib.loads(text))) for text in (there, here))
    except tomllib.TOMLDecodeError:
        return "its config.toml is damaged"
    keys = [key for key in {**first, **second} if first.get(key, ABSENT) != second.get(key, ABSENT)]
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return ", ".join(f"{key} is {_text(first, key)} there and {_text(second, key)} here" for key in keys[:SHOWN]) + more


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _text(leaves: Mapping[str, Any], key: str) -> str:
    return repr(leaves[key]) if key in leaves else "not set"
