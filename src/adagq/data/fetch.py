"""Put a verified copy of a published data set where `train`, `compare` and `reproduce` find it by themselves."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adagq.core.atomic import replacing
from adagq.core.errors import ConfigError, DataError
from adagq.data.dataset import DataSet
from adagq.data.fingerprints import Verified, verify
from adagq.data.folders import FOLDERS, cache_folder
from adagq.data.registry import load_data
from adagq.data.sources import SOURCES


@dataclass(frozen=True, eq=False)
class Fetched:
    """A verified copy, and where it came from."""

    verified: Verified
    place: Path
    source: str | None  # None: it was there already


def get_copy(
    name: str,
    source: str = "auto",
    folder: Path | None = None,
    to: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Fetched:
    """Return the copy below `to`; where there is none that is whole, fetch it, verify it, write it."""
    to = cache_folder() if to is None else to
    allowed = _check(name, source, folder)
    if (present := _verified(name, to)) is not None:
        return Fetched(present, to, None)
    reasons = []
    for tried in allowed:
        say(f"{name}: asking {tried}")
        try:
            found = verify(load_data(name, folder) if tried == "folder" else SOURCES[name][tried](name))
        except DataError as error:
            reasons.append(str(error) if tried == "folder" else f"{tried}: {error}")
            continue
        place = _write(found.data, to)
        if _verified(name, to) is None:
            raise DataError(f"{name}: something else lies in {to} and is found before {place}; remove it")
        return Fetched(found, place, tried)
    if source == "folder":
        raise DataError(reasons[0])
    raise DataError(
        f"{name}: no source gave it ({'; '.join(reasons)}); "
        f"if you have it in a folder, say --from folder --folder DIR; accepted: {FOLDERS[name].forms}"
    )


def _check(name: str, source: str, folder: Path | None) -> tuple[str, ...]:
    """Return the sources to try."""
    if name not in SOURCES:
        raise ConfigError(f"data: {name!r} cannot be fetched; allowed: {', '.join(SOURCES)}")
    if source == "folder" or (source == "auto" and folder is not None):
        if folder is None:
            raise ConfigError("--from folder needs --folder DIR")
        return ("folder",)
    if folder is not None:
        raise ConfigError(f"--folder {folder} does not go with --from {source}")
    if source == "auto":
        return tuple(SOURCES[name])
    if source not in SOURCES[name]:
        raise ConfigError(f"--from {source}: {name} comes from {', '.join(('auto', *SOURCES[name], 'folder'))}")
    return (source,)


def _verified(name: str, to: Path) -> Verified | None:
    """Return what a run would find below `to`, or None where that is absent, damaged or another data set."""
    try:
        return verify(load_data(name, to))
    except DataError:
        return None


def _write(data: DataSet, to: Path) -> Path:
    """Write one .npz; it has its name only when it is whole."""
    path = to / data.name / f"{data.name}.npz"
    with replacing(path) as file:
        np.savez(
            file,
            x_train=data.train_inputs,
            y_train=data.train_labels.astype(np.uint8),
            x_test=data.test_inputs,
            y_test=data.test_labels.astype(np.uint8),
        )
    return path
