"""One frozen tree of settings from TOML and `--set key=value`; `default.toml` beside this file is the demo.

Every key is checked: an unknown one fails and names the nearest known one, a bad value names its key. The
resolved tree is written back as TOML into the run directory, so a run can be repeated from its own folder.
"""

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from adagq.errors import ConfigError
from adagq.fleet import FleetConfig, fleet_config, load_fleet
from adagq.learners import TaskSpec
from adagq.methods import COMPARED, Method
from adagq.variants import find, rows_of

SEED_OF_TASK: Final = "task.seed"  # follows from `seed`
Positive = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]


class Training(BaseModel):
    """Who trains when, how fast, and when to stop."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: Annotated[float, Field(gt=0, le=1)] = 0.9  # accuracy on the common test set
    max_rounds: Positive = 200
    extra_rounds: NotNegative = 0  # after the target, to watch the plateau
    learning_rate: Annotated[float, Field(gt=0)] = 0.01
    decay: Annotated[float, Field(gt=0, le=1)] = 0.995  # of the learning rate, per round
    participants: NotNegative = 0  # clients sampled per round; 0 = all
    exchanges: Annotated[int, Field(ge=1, le=2)] = 2  # a round; with 1 levels are decided before this round's reports
    deadline_seconds: Annotated[float, Field(gt=0)] | None = None  # of every round; derived from recent ones if not set
    deadline_factor: Annotated[float, Field(ge=1)] = 1.5  # times what recent rounds needed
    min_updates: Positive = 1  # a round with fewer is repeated
    norm_bound: Annotated[float, Field(gt=1)] | None = None  # times the median norm: a larger update is refused
    weight_bound: Annotated[float, Field(ge=1)] = 10.0  # times the median of the examples: more do not count


class Config(BaseModel):
    """Everything that decides a run's rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: NotNegative = 0
    seeds: Positive = 1  # repeats: seed, seed + 1, …
    method: str = "adagq-fit"  # of `train`
    methods: tuple[str, ...] = COMPARED  # of `compare`
    variants: dict[str, dict[str, Any]] = {}  # rows of your own
    payload_scale: Annotated[float, Field(gt=0)] = 1.0  # a small model's payloads count so many times
    training: Training = Training()
    task: TaskSpec = TaskSpec()
    fleet: FleetConfig = FleetConfig()

    @model_validator(mode="after")
    def _consistent(self) -> "Config":
        for name in (self.method, *self.methods):
            self.row(name)
        if self.training.participants > self.task.clients:
            raise ValueError(
                f"training.participants = {self.training.participants}: there are {self.task.clients} clients"
            )
        return self

    def row(self, name: str) -> Method:
        """Return the method called `name`, from `variants` or from the table of methods."""
        return find(name, rows_of(self.variants))


def load_config(path: Path | None = None, settings: Sequence[str] = ()) -> Config:
    """Return the tree from a TOML file (None: the default) with `key=value` settings on top."""
    tree = tomllib.loads((files("adagq") / "default.toml").read_text("utf-8")) if path is None else read_toml(path)
    for setting in settings:
        _set(tree, setting)
    return resolve(tree, path.parent if path else Path())


def resolve(tree: Mapping[str, Any], folder: Path = Path()) -> Config:
    """Return the checked settings; files that they name are relative to `folder`."""
    for key in _paths(tree):
        if key not in KEYS:
            near = get_close_matches(key, KEYS, 1, 0.0)
            raise ConfigError(f"unknown key {key!r}: did you mean {near[0]!r}?")
    fleet = _fleet(tree.get("fleet", {}), tree.get("task", {}), folder)
    task = dict(tree.get("task", {})) | {"clients": _size(fleet)}
    try:
        return Config.model_validate(dict(tree) | {"fleet": fleet, "task": task})
    except ValidationError as invalid:
        first = invalid.errors()[0]
        key = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        whole = not key or isinstance(first["input"], Mapping)
        raise ConfigError(message if whole else f"{key} = {first['input']!r}: {message}") from None


def _fleet(fleet: Any, task: Any, folder: Path) -> FleetConfig:
    """Return the fleet of a table, of a TOML file or by name; the task may say how many clients it has."""
    wanted = task.get("clients") if isinstance(task, Mapping) else None
    if isinstance(fleet, str):
        config = FleetConfig() if fleet == "paper" else load_fleet(folder / fleet)
    elif isinstance(fleet, Mapping):
        alike = wanted is not None and not {"clients", "client"} & fleet.keys()
        config = fleet_config({**fleet, "clients": wanted} if alike else fleet, folder)
    else:
        raise ConfigError(f"fleet = {fleet!r}: must be a table, 'paper' or the path of a TOML file")
    if wanted is not None and wanted != _size(config):
        raise ConfigError(f"task.clients = {wanted!r}: the fleet has {_size(config)} clients")
    return config


def _size(fleet: FleetConfig) -> int:
    return sum(group.count for group in fleet.client) if fleet.client else fleet.clients


def to_toml(config: Config) -> str:
    """Return the resolved tree as TOML; keys without a value are left out."""
    import tomli_w

    tree = config.model_dump(mode="json", exclude={"task": {"seed"}})
    return tomli_w.dumps({key: _plain(value) for key, value in tree.items()})


def _plain(value: Any) -> Any:
    """TOML has no null: a key without a value is left out."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items() if part is not None}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file; ConfigError says what is wrong with it."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read ({reason})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from None


def _set(tree: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {setting!r}: expected key=value, such as training.target=0.95")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string
    *tables, leaf = key.strip().split(".")
    for table in tables:
        tree = tree.setdefault(table, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"--set {setting!r}: {table!r} is not a table")
    tree[leaf] = value


def _keys(kind: Any, prefix: str = "") -> Iterator[str]:
    """Yield every key of a settings class, nested ones with dots."""
    for name, hint in get_type_hints(kind).items():
        if name == "model_config":
            continue
        yield prefix + name
        if dataclasses.is_dataclass(hint) or (isinstance(hint, type) and issubclass(hint, BaseModel)):
            yield from _keys(hint, f"{prefix}{name}.")


KEYS: Final = tuple(key for key in _keys(Config) if key != SEED_OF_TASK)


def _paths(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        yield prefix + name
        if isinstance(value, Mapping) and not prefix and name != "variants":  # whose names are free
            yield from _paths(value, f"{name}.")
